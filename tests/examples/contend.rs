// A process that takes one lock again and again, and lets a file judge whether it was alone: inside the lock it creates
// the file with `O_EXCL`, which fails where another holder's file is still there, and removes it before it releases.
//
// `contend --nodes URL,URL,... --cycles N --file PATH`

use std::fs::{File, remove_file};
use std::io::ErrorKind::AlreadyExists;
use std::time::Duration;

const TTL: Duration = Duration::from_secs(10);
const RETRY_DELAY: Duration = Duration::from_millis(2);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let option = |name: &str| {
        let value = std::env::args().skip_while(|argument| argument != name).nth(1);
        value.ok_or(format!("{name} is missing"))
    };
    let (nodes, file) = (option("--nodes")?, option("--file")?);
    let cycles: u32 = option("--cycles")?.parse()?;
    let redlock = adapter::builder(nodes.split(','))?.build()?;
    let mut overlaps = 0;
    for _ in 0..cycles {
        let guard = redlock.lock("contended", TTL).retry_delay(RETRY_DELAY).wait_unbounded().await?;
        match File::create_new(&file) {
            Ok(_) => {
                tokio::task::yield_now().await;
                remove_file(&file)?;
            }
            Err(error) if error.kind() == AlreadyExists => overlaps += 1,
            Err(error) => return Err(error.into()),
        }
        // Whether the lock was ours to the end; a machine that stops for longer than the TTL would say otherwise.
        let released = guard.release().await?;
        assert_eq!(adapter::ReleaseOutcome::Released, released);
    }
    redlock.close().await;
    println!("{cycles} cycles, {overlaps} overlaps");
    if overlaps == 0 { Ok(()) } else { Err("two processes held one lock".into()) }
}
