//! Secondary indexes: rows by other keys than the primary key, unique indexes, and rows that an index leaves out.
//!
//! Run: `cargo run --example secondary_index`
#![forbid(unsafe_code)]

use ensile::codec::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use ensile::prelude::*;

/// A row of fixed layout: the row is stored and read as laid out in memory.
#[derive(Debug, Clone, Copy, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[zerocopy(crate = "ensile::codec::zerocopy")]
#[repr(C)]
struct Book {
    isbn: u64,
    /// Year of publication.
    year: u16,
    /// Shelf of the book; 0 for a lent book.
    shelf: u16,
    pages: u32,
}
ensile::fixed_layout!(Book { isbn: u64, year: u16, shelf: u16, pages: u32 }, "Book v1");

fn main() -> Result<()> {
    let db = Database::in_memory()?;
    // The functions compute a secondary key from the primary key and the row. A changed function needs a new version.
    let books = db
        .define::<(String, String), Book>("books") // author, title
        .unique_index("by_isbn", 1, |_key, book| book.isbn)
        .index("by_year", 1, |_key, book| Descending(book.year))
        .index_some("by_shelf", 1, |(author, _title), book| {
            (book.shelf > 0).then(|| (book.shelf, author.clone()))
        })
        .open()?;
    let by_isbn = books.index::<u64>("by_isbn")?;
    let by_year = books.index::<Descending<u16>>("by_year")?;
    let by_shelf = books.index::<(u16, String)>("by_shelf")?;

    db.run(|tx| {
        let mut add = |author: &str, title: &str, isbn, year, shelf| {
            tx.insert(&books, &(author, title), &Book { isbn, year, shelf, pages: 0 })
        };
        add("Lem", "Solaris", 100, 1961, 3)?;
        add("Lem", "The Cyberiad", 101, 1965, 3)?;
        add("Le Guin", "The Dispossessed", 102, 1974, 3)?;
        add("Butler", "Kindred", 103, 1979, 4)
    })?;

    // One row by a unique key.
    let found = db.run(|tx| tx.get(&by_isbn, &102))?;
    println!("isbn 102: {found:?}");
    let taken = db.run(|tx| {
        let book = Book { isbn: 102, year: 2000, shelf: 1, pages: 0 };
        tx.insert(&books, &("Nobody", "Nothing"), &book)
    });
    assert!(matches!(taken, Err(Error::NotUnique { .. })));

    // A range of secondary keys, newest first, as the index is descending.
    db.run(|tx| {
        for row in tx.range(&by_year, Descending(1975)..) {
            let ((author, title), book) = row?;
            println!("{}: {author}, {title}", book.year);
        }
        Ok(())
    })?;

    // A range by the first component of a secondary key. An index follows its table, and here a lent book leaves the
    // index.
    db.run(|tx| tx.update(&books, &("Lem", "Solaris"), |book| book.shelf = 0))?;
    let on_shelf = db.run(|tx| {
        tx.range(&by_shelf, Prefix((3,))).map(|row| row.map(|(key, _book)| key)).collect::<Result<Vec<_>>>()
    })?;
    println!("on shelf 3: {on_shelf:?}");
    assert_eq!(on_shelf.len(), 2);
    Ok(())
}
