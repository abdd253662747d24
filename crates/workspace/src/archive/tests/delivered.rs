//! What counts as delivered, and how much is read to determine it.

use super::*;

fn base(from: &Connected, base: Base) -> Option<u64> {
    from.workspace.base_run(&base).unwrap().map(|run| run.run)
}

fn delivered(from: &Connected, image: &ImageRecord, run: Option<u64>) -> bool {
    let layer = *image.tree.blobs().keys().next().unwrap();
    let delivered = from.workspace.delivered(&BTreeMap::from([(layer, 0)])).unwrap();
    delivered.held(&layer, run).is_some()
}

#[test]
fn the_base_is_the_newest_run_before_the_day_or_the_newest_of_all() {
    let from = Connected::new();
    let day = |text: &str| Base::Before(text.parse().unwrap());
    assert_eq!(base(&from, Base::Newest), None);
    for (run, time) in
        [(1, "2026-03-01T12:00:00Z"), (2, "2026-03-02T23:59:59Z"), (3, "2026-03-03T00:00:00Z")]
    {
        let image = from.image(&format!("q.io/a:{run}"), 100);
        from.archive(ArchiveRequest {
            created: time.parse().unwrap(),
            ..request(run, &[&image], WIDE)
        });
    }
    assert_eq!(base(&from, Base::Newest), Some(3));
    assert_eq!(base(&from, day("2026-03-03")), Some(2));
    assert_eq!(base(&from, day("2026-03-02")), Some(1));
    assert_eq!(base(&from, day("2026-03-01")), None);
    assert_eq!(base(&from, day("2030-01-01")), Some(3));
}

#[test]
fn only_runs_up_to_the_base_count_as_delivered_with_or_without_the_table() {
    let from = Connected::new();
    let (a, b) = (from.image("q.io/a:1", 100), from.image("q.io/b:1", 100));
    let unknown = from.image("q.io/c:1", 100);
    from.archive(request(1, &[&a], WIDE));
    from.archive(request(2, &[&a, &b], WIDE));
    let table = from.root().join("working-dir/internal/delivered");
    for damage in [false, true] {
        if damage {
            for entry in fs::read_dir(&table).unwrap() {
                fs::write(entry.unwrap().path(), b"damaged").unwrap();
            }
        }
        assert!(delivered(&from, &b, Some(2)));
        assert!(!delivered(&from, &b, Some(1)));
        // The first run that archived a blob is where it is.
        assert!(delivered(&from, &a, Some(1)));
        assert!(!delivered(&from, &a, None));
        assert!(!delivered(&from, &unknown, Some(2)));
    }
    // The next archive builds the table again.
    from.archive(request(3, &[&a, &b, &unknown], WIDE));
    let indexes = ["000001.json", "000002.json"].map(|name| {
        let path = from.root().join("working-dir/runs").join(name);
        (path.clone(), fs::read(path).unwrap())
    });
    for (path, _) in &indexes {
        fs::write(path, b"is not read").unwrap();
    }
    assert!(delivered(&from, &a, Some(3)) && delivered(&from, &unknown, Some(3)));
    assert_eq!(base(&from, Base::Newest), Some(3));
    // Content whose archive was damaged by a power cut does not count.
    fs::remove_file(&indexes[0].0).unwrap();
    assert!(!delivered(&from, &a, Some(3)));
    assert!(delivered(&from, &b, Some(3)));
}

#[test]
fn content_of_a_damaged_archive_is_delivered_again_and_counts_then() {
    let from = Connected::new();
    let a = from.image("q.io/a:1", 100);
    let sealed = from.archive(request(1, &[&a], WIDE));
    fs::remove_file(from.root().join("working-dir/runs/000001.json")).unwrap();
    fs::remove_file(&sealed.chunks[0]).unwrap();
    let again = from.archive(request(2, &[&a], WIDE));
    assert_eq!(again.base, None);
    assert!(delivered(&from, &a, Some(2)));
    let archives = Archives::open(from.root()).unwrap();
    let layer = *a.tree.blobs().keys().next().unwrap();
    assert!(archives.blob(&layer).is_some());
}
