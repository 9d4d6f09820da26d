//! The spans and metrics of a program, as OpenTelemetry sends them to a collector (OTLP over HTTP).
//!
//! `cargo run -p redlock-examples --example opentelemetry`
#![allow(clippy::print_stdout)] // prints what the collector received

use std::error::Error;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::{Router, routing::post};
use metrics_opentelemetry::{OpenTelemetryMetrics, OpenTelemetryRecorder};
use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{ExporterBuildError, MetricExporter, SpanExporter, WithExportConfig};
use opentelemetry_sdk::{Resource, metrics::SdkMeterProvider, trace::SdkTracerProvider};
use redlock_examples::Nodes;
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::spawn_blocking;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;

/// Sends spans and metrics to the collector from now on. Shut both down at the end of the program.
fn install(collector: &str) -> Result<(SdkTracerProvider, SdkMeterProvider), ExporterBuildError> {
    let service = Resource::builder().with_service_name("billing").build();

    let exporter = SpanExporter::builder().with_http().with_endpoint(format!("{collector}/v1/traces"));
    let traces = SdkTracerProvider::builder().with_resource(service.clone());
    let traces = traces.with_batch_exporter(exporter.build()?).build();
    let spans = tracing_opentelemetry::layer().with_tracer(traces.tracer("redlock"));
    // All spans have this target and the level DEBUG.
    let filter = Targets::new().with_target("redlock", LevelFilter::DEBUG);
    tracing_subscriber::registry().with(spans.with_filter(filter)).init();

    let exporter = MetricExporter::builder().with_http().with_endpoint(format!("{collector}/v1/metrics"));
    let metrics = SdkMeterProvider::builder().with_resource(service);
    let metrics = metrics.with_periodic_exporter(exporter.build()?).build();
    let recorder = OpenTelemetryRecorder::new(OpenTelemetryMetrics::new(metrics.meter("redlock")));
    metrics_opentelemetry::metrics::set_global_recorder(recorder).expect("the only recorder");
    redlock_redis_rs::describe_metrics();
    Ok((traces, metrics))
}

/// A stand-in for the collector: it keeps the messages.
fn collector(received: UnboundedSender<(String, Bytes)>) -> Router {
    type Received = State<UnboundedSender<(String, Bytes)>>;
    let receive = async |State(received): Received, Path(signal): Path<String>, message: Bytes| {
        drop(received.send((signal, message)));
    };
    Router::new().route("/v1/{signal}", post(receive)).with_state(received)
}

/// Returns the names that the messages of a signal contain. In protobuf, texts are plain bytes.
fn found(
    received: &mut UnboundedReceiver<(String, Bytes)>,
    names: &[(&str, &'static str)],
) -> Vec<&'static str> {
    let mut found = Vec::new();
    while let Ok((signal, message)) = received.try_recv() {
        let contains = |name: &str| message.windows(name.len()).any(|bytes| bytes == name.as_bytes());
        found.extend(names.iter().filter(|(of, name)| *of == signal && contains(name)).map(|(_, name)| name));
    }
    found
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (sender, mut received) = unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    tokio::spawn(async move { axum::serve(listener, collector(sender)).await });

    let (traces, metrics) = spawn_blocking(move || install(&address)).await??;
    let redlock = Nodes::new().program()?;
    let guard = redlock.lock("invoice:42", Duration::from_secs(10)).label("billing").await?;
    guard.release().await?;
    redlock.close().await;
    // Both wait for their last messages.
    spawn_blocking(move || traces.shutdown().and_then(|()| metrics.shutdown())).await??;

    let names = [
        ("traces", "attempt"),
        ("traces", "release"),
        ("traces", "invoice:42"),
        ("metrics", "redlock_attempts_total"),
        ("metrics", "redlock_releases_total"),
    ];
    let found = found(&mut received, &names);
    println!("the collector received: {found:?}");
    for (signal, name) in names {
        assert!(found.contains(&name), "{name} in {signal}");
    }
    Ok(())
}

#[test]
fn the_collector_receives_spans_and_metrics() {
    main().expect("the example succeeds");
}
