//! Facts of a folder as JSON, for `--json`.
//!
//! Neighbours: [`ensile::folder`] collects the facts; `details` and `verdict` print the same facts as text.

use ensile::folder::{
    AgeFacts, Damage, EntryType, Examination, Loss, NotProven, NotProvenReason, PageFileFacts, PictureFacts,
    RangeFacts, Remedy, SectionFacts, TableFacts,
};
use ensile::receipt::Epoch;
use serde_json::{Value, json};

use super::backup_facts;
use super::details::role;
use super::figures::hex;

pub(crate) fn examination(found: &Examination) -> Value {
    let generations: Vec<Value> = found
        .generations
        .iter()
        .map(|generation| {
            json!({
                "number": generation.number, "first": generation.first.number(), "logs": generation.logs,
                "closed": generation.is_closed, "durable": generation.durable.map(Epoch::number),
                "entries": generation.entries, "covered_entries": generation.covered_entries,
                "ignored_entries": generation.ignored_entries,
            })
        })
        .collect();
    let checkpoint = found.checkpoint.as_ref().map(|checkpoint| {
        let picture_epoch = checkpoint.picture_epoch().map(Epoch::number);
        let kind = match picture_epoch {
            Some(_) => "picture",
            None if checkpoint.ranges.is_empty() => "fuzzy",
            None => "cycling",
        };
        json!({
            "number": checkpoint.number, "kind": kind,
            "picture_epoch": picture_epoch, "low": checkpoint.low.number(), "high": checkpoint.high.number(),
            "files": checkpoint.files, "entries": checkpoint.entries, "bytes": checkpoint.bytes,
            "ranges": checkpoint.ranges.iter().map(range).collect::<Vec<_>>(),
            "picture": checkpoint.picture.as_ref().map(picture),
        })
    });
    let files: Vec<Value> = found
        .files
        .iter()
        .map(|file| {
            json!({
                "name": file.name, "role": role(&file.role), "bytes": file.bytes, "whole_bytes": file.whole_bytes,
                "entries": file.entries, "epochs": epochs_json(file.epochs),
            })
        })
        .collect();
    let torn_tails: Vec<Value> = found
        .torn_tails
        .iter()
        .map(|tail| {
            json!({
                "file": tail.file, "offset": tail.offset, "bytes": tail.bytes, "epochs": epochs_json(tail.epochs),
                "detail": tail.detail,
            })
        })
        .collect();
    let unread: Vec<Value> =
        found.unread.iter().map(|unread| json!({ "path": unread.path, "detail": unread.detail })).collect();
    let to_take =
        found.to_take.map(|(entries, epoch)| json!({ "entries": entries, "epoch": epoch.number() }));
    let shared_store = found
        .shared_store
        .as_ref()
        .map(|remembered| json!({ "store": remembered.store, "is_fenced": remembered.is_fenced }));
    json!({
        "whole": found.is_whole(), "refused": found.refused, "shared_store": shared_store, "application": found.application,
        "types": found.types.iter().map(entry_type).collect::<Vec<_>>(),
        "durable_epoch": found.durable_epoch.map(Epoch::number),
        "backup": found.backup.as_ref().map(backup_facts::facts),
        "generations": generations, "checkpoint": checkpoint, "files": files, "torn_tails": torn_tails,
        "unfinished_epochs": epochs_json(found.unfinished_epochs), "unread": unread, "to_take": to_take,
        "not_proven": found.not_proven.as_ref().map(not_proven_json),
        "damage": damage_json(&found.damage), "unneeded": damage_json(&found.unneeded),
        "remedy": found.remedy.as_ref().map(remedy),
    })
}

fn entry_type(found: &EntryType) -> Value {
    json!({
        "role": found.role.name(), "version": found.version, "name": found.name,
        "fingerprint": found.fingerprint.map(|fingerprint| format!("{fingerprint:016x}")),
    })
}

fn remedy(remedy: &Remedy) -> Value {
    match remedy {
        Remedy::Cut(loss) => json!({ "cut": loss_json(loss) }),
        Remedy::Marks(marks) => json!({ "marks": marks }),
        Remedy::PictureAlone { why, loss } => {
            json!({ "picture_alone": { "why": why, "loss": loss_json(loss) } })
        }
        Remedy::Copy(why) => json!({ "copy": why }),
    }
}

fn loss_json(loss: &Loss) -> Value {
    json!({
        "durable_epoch": loss.durable.number(), "epochs": epochs_json(loss.epochs), "entries": loss.entries,
        "unreadable": loss.unreadable, "files": loss.files,
    })
}

fn range(range: &RangeFacts) -> Value {
    json!({
        "table": range.start.section, "key": hex(&range.start.key), "number": range.number,
        "generation": range.generation, "low": range.low.number(), "high": range.high.number(),
        "files": range.files, "entries": range.entries, "bytes": range.bytes,
    })
}

fn picture(picture: &PictureFacts) -> Value {
    let section = |of: &SectionFacts| {
        json!({
            "table": of.section, "pages": of.pages, "entries": of.entries, "bytes": of.bytes,
            "used_bytes": of.used_bytes,
        })
    };
    let age = |of: &AgeFacts| json!({ "checkpoint": of.checkpoint, "pages": of.pages, "bytes": of.bytes });
    let file =
        |of: &PageFileFacts| json!({ "name": of.name, "bytes": of.bytes, "used_bytes": of.used_bytes });
    json!({
        "tables": picture.sections.iter().map(section).collect::<Vec<_>>(),
        "ages": picture.ages.iter().map(age).collect::<Vec<_>>(),
        "parts": picture.parts, "displaced_blocks": picture.displaced_blocks, "displaced": picture.displaced,
        "displaced_tails": picture.displaced_tails, "displaced_tail_bytes": picture.displaced_tail_bytes,
        "files": picture.files.iter().map(file).collect::<Vec<_>>(),
    })
}

pub(super) fn table(table: &TableFacts) -> Value {
    json!({
        "id": table.id, "name": table.name, "key_type": table.key_type, "value_type": table.value_type,
        "value_fields": table.value_layout, "indexes": table.indexes, "rows": table.rows, "bytes": table.bytes,
        "before_images": table.before_images,
    })
}

fn epochs_json(epochs: Option<(Epoch, Epoch)>) -> Value {
    epochs.map_or(Value::Null, |(low, high)| json!([low.number(), high.number()]))
}

pub(super) fn damage_json(damage: &[Damage]) -> Vec<Value> {
    let one =
        |damage: &Damage| json!({ "file": damage.file, "offset": damage.offset, "detail": damage.detail });
    damage.iter().map(one).collect()
}

pub(super) fn not_proven_json(left: &NotProven) -> Value {
    let reason = match left.reason {
        NotProvenReason::Copied => "copied",
        NotProvenReason::OtherBoot => "other_boot",
        NotProvenReason::OtherMount => "other_mount",
        NotProvenReason::NotOpened => "not_opened",
        NotProvenReason::Damaged => "damaged",
        NotProvenReason::UnknownBoot => "unknown_boot",
        NotProvenReason::Changed => "changed",
        _ => "other",
    };
    json!({
        "reason": reason, "left_out": left.is_left_out(), "durable_epoch": left.durable.number(),
        "last_epoch": left.last.number(), "files": left.files, "says": left.to_string(),
    })
}
