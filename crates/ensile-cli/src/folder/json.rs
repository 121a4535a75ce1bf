//! Facts of a folder as JSON, for `--json`.
//!
//! Neighbours: [`ensile::folder`] collects the facts; `details` and `verdict` print the same facts as text.

use ensile::folder::{
    AgeFacts, CheckpointFacts, Damage, EntryType, Examination, FileFacts, GenerationFacts, Loss, NotProven,
    NotProvenReason, PageFileFacts, PictureFacts, RangeFacts, Remedy, RememberedStore, SectionFacts,
    TableFacts, Unread,
};
use ensile::receipt::Epoch;
use ensile::recovery::TornTail;
use serde_json::{Value, json};

use super::backup_facts;
use super::details::role;
use super::figures::hex;

pub(crate) fn examination(found: &Examination) -> Value {
    let generation = |of: &GenerationFacts| {
        json!({
            "number": of.number, "first": of.first.number(), "logs": of.logs, "closed": of.is_closed,
            "durable": of.durable.map(Epoch::number), "entries": of.entries, "covered_entries": of.covered_entries,
            "ignored_entries": of.ignored_entries,
        })
    };
    let file = |of: &FileFacts| {
        json!({
            "name": of.name, "role": role(&of.role), "bytes": of.bytes, "whole_bytes": of.whole_bytes,
            "entries": of.entries, "epochs": epochs_json(of.epochs),
        })
    };
    let torn_tail = |of: &TornTail| {
        json!({
            "file": of.file, "offset": of.offset, "bytes": of.bytes, "epochs": epochs_json(of.epochs),
            "detail": of.detail,
        })
    };
    let unread = |of: &Unread| json!({ "path": of.path, "detail": of.detail });
    let to_take = |(entries, epoch): (u64, Epoch)| json!({ "entries": entries, "epoch": epoch.number() });
    let store = |of: &RememberedStore| json!({ "store": of.store, "is_fenced": of.is_fenced });
    json!({
        "whole": found.is_whole(), "refused": found.refused, "shared_store": found.shared_store.as_ref().map(store),
        "application": found.application,
        "types": list_of(&found.types, entry_type),
        "durable_epoch": found.durable_epoch.map(Epoch::number),
        "backup": found.backup.as_ref().map(backup_facts::facts),
        "generations": list_of(&found.generations, generation),
        "checkpoint": found.checkpoint.as_ref().map(checkpoint), "files": list_of(&found.files, file),
        "torn_tails": list_of(&found.torn_tails, torn_tail),
        "unfinished_epochs": epochs_json(found.unfinished_epochs), "unread": list_of(&found.unread, unread),
        "to_take": found.to_take.map(to_take),
        "not_proven": found.not_proven.as_ref().map(not_proven_json),
        "damage": damage_json(&found.damage), "unneeded": damage_json(&found.unneeded),
        "remedy": found.remedy.as_ref().map(remedy),
    })
}

/// List with an element for each fact.
pub(super) fn list_of<F>(facts: &[F], element: impl Fn(&F) -> Value) -> Vec<Value> {
    facts.iter().map(element).collect()
}

fn checkpoint(of: &CheckpointFacts) -> Value {
    let picture_epoch = of.picture_epoch().map(Epoch::number);
    let kind = match picture_epoch {
        Some(_) => "picture",
        None if of.ranges.is_empty() => "fuzzy",
        None => "cycling",
    };
    json!({
        "number": of.number, "kind": kind, "picture_epoch": picture_epoch, "low": of.low.number(),
        "high": of.high.number(), "files": of.files, "entries": of.entries, "bytes": of.bytes,
        "ranges": list_of(&of.ranges, range), "picture": of.picture.as_ref().map(picture),
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
        "tables": list_of(&picture.sections, section), "ages": list_of(&picture.ages, age),
        "parts": picture.parts, "displaced_blocks": picture.displaced_blocks, "displaced": picture.displaced,
        "displaced_tails": picture.displaced_tails, "displaced_tail_bytes": picture.displaced_tail_bytes,
        "files": list_of(&picture.files, file),
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
    list_of(damage, |of| json!({ "file": of.file, "offset": of.offset, "detail": of.detail }))
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
