//! Scripts, which a real Lua 5.1 runs.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value};

use crate::command::{ScriptCall, call_of_script};
use crate::core::Core;
use crate::locked;
use crate::reply::Reply;

/// The Lua of a server, and the scripts that it has compiled.
pub(crate) struct Scripts {
    lua: Lua,
    compiled: Mutex<HashMap<String, Function>>,
}

/// An error reply that `redis.call` raises.
#[derive(Debug)]
struct Raised(String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

impl Scripts {
    pub(crate) fn new(core: &Arc<Mutex<Core>>) -> Self {
        let options = LuaOptions::new().catch_rust_panics(false);
        let lua = Lua::new_with(StdLib::STRING | StdLib::TABLE | StdLib::MATH, options);
        let lua = lua.expect("these libraries are safe");
        functions(&lua, core).expect("the functions are created in an empty Lua");
        Self { lua, compiled: Mutex::default() }
    }

    pub(crate) fn run(&self, call: &ScriptCall, core: &Arc<Mutex<Core>>) -> Reply {
        let reply = match self.call(call) {
            Ok(value) => reply_of(&value),
            Err(error) => {
                Reply::Error(format!("{} script: {}, on @user_script", message(&error), call.script.sha))
            }
        };
        locked(core).end_script();
        reply
    }

    fn call(&self, ScriptCall { script, keys, args }: &ScriptCall) -> mlua::Result<Value> {
        let globals = self.lua.globals();
        let words = |words: &[Vec<u8>]| {
            let words =
                words.iter().map(|word| self.lua.create_string(word)).collect::<mlua::Result<Vec<_>>>()?;
            self.lua.create_sequence_from(words)
        };
        globals.raw_set("KEYS", words(keys)?)?;
        globals.raw_set("ARGV", words(args)?)?;
        let mut compiled = self.compiled.lock().expect("compiling does not panic");
        let function = match compiled.get(&script.sha) {
            Some(function) => function.clone(),
            None => {
                let function =
                    self.lua.load(script.text.as_str()).set_name("@user_script").into_function()?;
                compiled.insert(script.sha.clone(), function.clone());
                function
            }
        };
        drop(compiled);
        function.call(())
    }
}

/// Creates the table `redis`, and forbids global variables as a server does.
fn functions(lua: &Lua, core: &Arc<Mutex<Core>>) -> mlua::Result<()> {
    let redis = lua.create_table()?;
    let call = |raises: bool| {
        let core = Arc::clone(core);
        lua.create_function(move |lua, words: MultiValue| {
            match call_of_script(&mut locked(&core), &command(&words)?) {
                Reply::Error(error) if raises => Err(mlua::Error::external(Raised(error))),
                reply => value_of(lua, &reply),
            }
        })
    };
    redis.set("call", call(true)?)?;
    redis.set("pcall", call(false)?)?;
    redis.set(
        "error_reply",
        lua.create_function(|lua, text: mlua::String| single(lua, "err", &text.as_bytes()))?,
    )?;
    redis.set(
        "status_reply",
        lua.create_function(|lua, text: mlua::String| single(lua, "ok", &text.as_bytes()))?,
    )?;
    if locked(core).settings.release.has_7() {
        let core = Arc::clone(core);
        redis.set("REDIS_VERSION_NUM", 0x0007_000f)?;
        let check = lua.create_function(move |_, words: MultiValue| {
            let name = crate::command::name(&command(&words)?);
            Ok(!locked(&core).settings.denied.contains(name.as_str()))
        })?;
        redis.set("acl_check_cmd", check)?;
    }
    let globals = lua.globals();
    globals.raw_set("redis", redis)?;
    let guard = lua.create_table()?;
    let forbid = |_: &Lua, (_, name, _): (Table, String, Value)| -> mlua::Result<()> {
        Err(mlua::Error::runtime(format!("Script attempted to create global variable '{name}'")))
    };
    guard.set("__newindex", lua.create_function(forbid)?)?;
    globals.set_metatable(Some(guard))
}

fn command(words: &MultiValue) -> mlua::Result<Vec<Vec<u8>>> {
    let word = |value: &Value| match value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Integer(number) => Ok(number.to_string().into_bytes()),
        Value::Number(number) => Ok(number.to_string().into_bytes()),
        _ => Err(mlua::Error::external(Raised(
            "ERR Lua redis lib command arguments must be strings or integers".into(),
        ))),
    };
    words.iter().map(word).collect()
}

fn value_of(lua: &Lua, reply: &Reply) -> mlua::Result<Value> {
    Ok(match reply {
        Reply::Status(text) => Value::Table(single(lua, "ok", text.as_bytes())?),
        Reply::Error(text) => Value::Table(single(lua, "err", text.as_bytes())?),
        #[allow(clippy::cast_precision_loss)] // as in a server
        Reply::Int(number) => Value::Number(*number as f64),
        Reply::Bulk(bytes) => Value::String(lua.create_string(bytes)?),
        Reply::Text(text) => Value::String(lua.create_string(text)?),
        Reply::Nil => Value::Boolean(false),
        Reply::Array(replies) => {
            let values =
                replies.iter().map(|reply| value_of(lua, reply)).collect::<mlua::Result<Vec<_>>>()?;
            Value::Table(lua.create_sequence_from(values)?)
        }
        Reply::Map(_) => unreachable!("no command of a script returns a map"),
    })
}

fn single(lua: &Lua, name: &str, text: &[u8]) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    table.raw_set(name, lua.create_string(text)?)?;
    Ok(table)
}

fn reply_of(value: &Value) -> Reply {
    match value {
        Value::String(text) => Reply::bulk(text.as_bytes().to_vec()),
        Value::Integer(number) => Reply::Int(*number),
        #[allow(clippy::cast_possible_truncation)] // as in a server
        Value::Number(number) => Reply::Int(*number as i64),
        Value::Boolean(true) => Reply::Int(1),
        Value::Table(table) => {
            let text = |name| table.raw_get::<Option<mlua::String>>(name).ok().flatten();
            if let Some(error) = text("err") {
                return Reply::error(error.to_string_lossy());
            }
            if let Some(status) = text("ok") {
                return Reply::Status(status.to_string_lossy());
            }
            let values = table.sequence_values::<Value>().map_while(Result::ok);
            Reply::Array(values.map(|value| reply_of(&value)).collect())
        }
        _ => Reply::Nil,
    }
}

/// Returns the error reply to a script that has failed.
fn message(error: &mlua::Error) -> String {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(Raised(text)) = error.downcast_ref::<Raised>() {
            return text.clone();
        }
        cause = match error.downcast_ref::<mlua::Error>() {
            Some(mlua::Error::CallbackError { cause, .. }) => Some(&**cause),
            Some(mlua::Error::ExternalError(error)) => Some(&**error),
            _ => error.source(),
        };
    }
    format!("ERR {}", error.to_string().lines().next().unwrap_or_default())
}
