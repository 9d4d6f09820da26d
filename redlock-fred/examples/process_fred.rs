//! The process that the tests of several processes start.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    redlock_adapter_tests::process(|url, options| redlock_fred::node(url, options))
}
