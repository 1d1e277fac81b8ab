//! The way in: every step of a start, in the order that R2, R5, R10 and R11 need.

use super::{
    Create, Observer, OpenError, Opened, Options, Overlaps, Store,
    directory::{Directory, Found},
    record::opening,
    schema,
    sqlite::Parts,
    start,
};

/// Opens the store, or makes it where that is allowed. Blocks; call it once, before any listener
/// opens.
///
/// `on_sync` is told how long each commit's sync took. What an earlier run left is durable, the
/// clean marks are deleted and this run's facts are stored, all synced, when this returns.
///
/// # Errors
/// [`OpenError`] says what happened, where, and what to do. Nothing kept in the store was changed.
pub fn open(
    options: &Options,
    overlaps: Overlaps,
    on_sync: Option<Observer>,
) -> Result<Opened, OpenError> {
    known_rekeys(options)?;
    let directory = Directory::new(&options.path);
    // Judged before anything is made, so that a refusal leaves no trace, and again under the lock.
    permitted(&directory, options)?;
    directory.make()?;
    let lock = directory.lock()?;
    let created = permitted(&directory, options)? == Found::Nothing;
    let mut disk = if created {
        let id = directory.begin()?;
        schema::create(&directory, &id)?
    } else {
        let id = directory.id()?;
        schema::recover(&directory, &id)?
    };
    let path = directory.database();
    schema::limit_cache(&disk.db, options.page_cache / 2).map_err(opening(&path, "set up"))?;
    let boot = start::begin(&mut disk.db, &path, options, overlaps, created)?;
    schema::settle(&disk, &directory)?;
    if created {
        directory.finish()?;
    }
    let upstreams = boot.upstreams.iter().map(|upstream| upstream.id).collect();
    let page_cache = options.page_cache;
    let home = directory.home()?;
    let store = Store::run(Parts { directory, lock, disk, home, upstreams, page_cache, on_sync })?;
    Ok(Opened { store, boot })
}

fn permitted(directory: &Directory, options: &Options) -> Result<Found, OpenError> {
    let path = || options.path.clone();
    match directory.look()? {
        Found::Store if options.fresh => Err(OpenError::Exists { path: path() }),
        Found::Nothing if !options.fresh && options.create == Create::Never => {
            Err(OpenError::Missing { path: path() })
        }
        found @ (Found::Store | Found::Nothing) => Ok(found),
    }
}

fn known_rekeys(options: &Options) -> Result<(), OpenError> {
    let names = || options.upstreams.iter().map(|facts| facts.name.as_str());
    match options.rekey.iter().find(|name| !names().any(|known| known == name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let known = names().collect::<Vec<_>>().join(", ");
            Err(OpenError::UnknownRekey { name: name.clone(), known })
        }
    }
}
