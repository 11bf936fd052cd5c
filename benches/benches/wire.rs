//! The hot paths of the wire. Each is measured beside its floor, which is the same JSON parsed by `serde_json` alone, or
//! the same bytes scanned once, so that the ratio can be read off one run.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::Value;
use sparring_wire::framing::Lines;
use sparring_wire::jsonrpc;
use sparring_wire::sse::{LineEnd, SseEvent, SseReader};
use std::hint::black_box;

const LIMIT: usize = 64 << 20;

fn call(bytes: usize) -> String {
    let text = "x".repeat(bytes);
    format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{text}"}}}}}}"#
    )
}

fn envelopes(criterion: &mut Criterion) {
    for (name, size) in [("100 B", 100), ("1 MiB", 1 << 20)] {
        let message = call(size);
        let mut group = criterion.benchmark_group(format!("envelope, {name}"));
        group.throughput(Throughput::Bytes(message.len() as u64));
        group.bench_function("floor: serde_json", |b| {
            b.iter(|| serde_json::from_str::<Value>(black_box(&message)));
        });
        group.bench_function("inspect", |b| b.iter(|| jsonrpc::inspect(black_box(&message))));
        group.finish();
    }
}

fn streams(criterion: &mut Criterion) {
    let line = format!("{}\n", call(100));
    let lines = line.repeat(100);
    let mut events = Vec::new();
    for _ in 0..100 {
        SseEvent::message(call(100)).write(LineEnd::Lf, &mut events);
    }
    let mut group = criterion.benchmark_group("100 messages of 100 B in chunks of 4 KiB");
    group.throughput(Throughput::Bytes(lines.len() as u64));
    group.bench_function("floor: one scan", |b| {
        b.iter(|| black_box(lines.as_bytes()).iter().filter(|b| **b == b'\n').count());
    });
    group.bench_function("lines", |b| {
        b.iter_batched(
            || Lines::new(LIMIT),
            |mut reader| {
                let mut count = 0;
                for chunk in lines.as_bytes().chunks(4096) {
                    reader.push(chunk);
                    while let Ok(Some(_)) = reader.next_line() {
                        count += 1;
                    }
                }
                assert_eq!(count, 100);
            },
            BatchSize::SmallInput,
        );
    });
    group.bench_function("server-sent events", |b| {
        b.iter_batched(
            || SseReader::new(LIMIT),
            |mut reader| {
                let count: usize =
                    events.chunks(4096).map(|chunk| reader.push(chunk).map_or(0, |items| items.len())).sum();
                assert_eq!(count, 100);
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

criterion_group!(wire, envelopes, streams);
criterion_main!(wire);
