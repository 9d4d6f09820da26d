//! Runs the examples.

use std::path::Path;
use std::process::Command;

#[test]
fn observe() {
    let tests = std::env::current_exe().unwrap();
    let target = tests.parent().and_then(Path::parent).unwrap();
    let program = target.join("examples/observe").with_extension(std::env::consts::EXE_EXTENSION);
    assert!(program.exists(), "{} is missing: build it with `cargo build --examples`", program.display());
    let output = Command::new(program).output().unwrap();
    let output_text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output_text}");
    for part in
        ["lease renewed", "lease lost", "host-1:4242#", "redlock_attempts_total", "redlock_losses_total"]
    {
        assert!(output_text.contains(part), "{part} is missing:\n{output_text}");
    }
    assert!(!output_text.contains("Token("), "{output_text}");
}
