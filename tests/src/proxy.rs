//! A proxy with faults: a unix socket in front of the engine's, which counts requests and breaks them on demand.
//!
//! It passes bytes unchanged. It parses only the heads of requests, to classify them.

mod framing;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub use framing::class_of;
use framing::{Framing, Piece};

/// A way to break a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Closes the connection before the engine receives the request: certainly not done.
    CloseBefore,
    /// The engine receives the request and the response is lost: done, but the client cannot know.
    CloseAfter,
    /// Neither side receives anything until [`Proxy::heal`].
    Hang,
    /// Holds the request before the engine receives it until [`Proxy::heal`], then closes: certainly not done.
    HoldBefore,
    /// The engine executes the request; its response is held until [`Proxy::heal`], then the connection is closed.
    HoldAfter,
    /// Holds the request for this time, or until [`Proxy::heal`], and then passes it on.
    Delay(Duration),
    /// The engine does not receive the request; the client reads these bytes before the connection closes.
    Answer(&'static str),
    /// The engine executes the request; the connection closes in the middle of the response.
    Cut,
}

/// One request that the proxy received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Method and path with ids replaced, such as `POST /containers/*/start`.
    pub class: String,
    /// Method and path with its query, as sent.
    pub request: String,
    /// Time at which the proxy received it.
    pub at: Instant,
}

#[derive(Default)]
struct State {
    seen: Vec<Seen>,
    faults: Vec<(String, Fault, usize)>,
    /// The write to break; `None` after it.
    point: Option<Point>,
    /// Class of the write that was broken.
    broken: Option<String>,
    /// A request is held now.
    reached: bool,
    live: BTreeMap<u64, Live>,
    /// Bytes of the answers that were passed on, by class.
    served: BTreeMap<String, usize>,
    next: u64,
    connections: usize,
    refusing: bool,
    hanging: bool,
    healed: u64,
}

struct Point {
    /// Number of writes to pass before it.
    passing: usize,
    fault: Fault,
    /// Calls that renew a lease count.
    has_leases: bool,
}

struct Live {
    client: UnixStream,
    engine: UnixStream,
    class: String,
    swallow: bool,
    hold: bool,
    cut: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks while everything hangs.
    fn gate(&self) {
        let mut state = self.lock();
        while state.hanging {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The request of [`Proxy::hold_at`] waits here.
    fn hold(&self) {
        self.lock().reached = true;
        self.changed.notify_all();
        self.hang_until_healed();
    }

    fn count_served(&self, id: u64, bytes: usize) {
        let mut state = self.lock();
        let class = state.live.get(&id).map(|live| live.class.clone());
        *state.served.entry(class.unwrap_or_default()).or_default() += bytes;
    }

    fn hang_for(&self, span: Duration) {
        let state = self.lock();
        let round = state.healed;
        let unhealed = |state: &mut State| state.healed == round;
        drop(self.changed.wait_timeout_while(state, span, unhealed));
    }

    fn hang_until_healed(&self) {
        let mut state = self.lock();
        let round = state.healed;
        while state.healed == round {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The proxy; it serves until the drop.
pub struct Proxy {
    socket: PathBuf,
    shared: Arc<Shared>,
}

impl Proxy {
    /// Listens at `socket` for clients of the engine at `engine`.
    #[must_use]
    pub fn start(socket: &Path, engine: &Path) -> Self {
        drop(std::fs::remove_file(socket));
        let listener = UnixListener::bind(socket).expect("the proxy's socket can be bound");
        let shared = Arc::new(Shared::default());
        let (theirs, engine) = (Arc::clone(&shared), engine.to_owned());
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let refusing = {
                    let mut state = theirs.lock();
                    state.connections += 1;
                    state.refusing
                };
                if !refusing {
                    serve(&theirs, client, &engine);
                }
            }
        });
        Self {
            socket: socket.to_owned(),
            shared,
        }
    }

    /// The value for `DOCKER_HOST`.
    #[must_use]
    pub fn host(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Number of connections so far, including refused ones and those without a request.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.lock().connections
    }

    /// All requests so far, in order.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.lock().seen.clone()
    }

    /// Number of requests so far, by class.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for seen in &self.shared.lock().seen {
            *counts.entry(seen.class.clone()).or_default() += 1;
        }
        counts
    }

    /// All requests that change something: every method except GET and HEAD.
    #[must_use]
    pub fn writes(&self) -> Vec<Seen> {
        // A connection to BuildKit is used for its size as well. A build also opens a session.
        let reads = |seen: &Seen| {
            let classes = ["GET ", "HEAD ", "POST /grpc"];
            classes.iter().any(|class| seen.class.starts_with(class))
        };
        self.seen().into_iter().filter(|seen| !reads(seen)).collect()
    }

    /// The same without the calls that renew the controller's lease. This works only for environments without volumes.
    #[must_use]
    pub fn writes_but_the_lease(&self) -> Vec<Seen> {
        let mut writes = self.writes();
        writes.retain(|seen| !is_of_a_lease(&seen.class, &seen.request));
        writes
    }

    /// Bytes of the answers so far to requests of this class, with their heads.
    #[must_use]
    pub fn served_bytes(&self, class: &str) -> usize {
        self.shared.lock().served.get(class).copied().unwrap_or(0)
    }

    /// Forgets all requests so far.
    pub fn reset_counts(&self) {
        let mut state = self.shared.lock();
        state.seen.clear();
        state.served.clear();
    }

    /// Breaks the next `times` requests whose class starts with `class`.
    pub fn inject(&self, class: &str, fault: Fault, times: usize) {
        self.shared.lock().faults.push((class.to_owned(), fault, times));
    }

    /// Breaks one request: the write (not GET or HEAD) that follows `passing` others.
    pub fn hold_at(&self, passing: usize, fault: Fault) {
        self.set_point(passing, fault, true);
    }

    /// The same without the calls that renew the controller's lease, as in [`Self::writes_but_the_lease`].
    pub fn hold_at_change(&self, passing: usize, fault: Fault) {
        self.set_point(passing, fault, false);
    }

    fn set_point(&self, passing: usize, fault: Fault, has_leases: bool) {
        let mut state = self.shared.lock();
        state.point = Some(Point {
            passing,
            fault,
            has_leases,
        });
        (state.broken, state.reached) = (None, false);
    }

    /// Class of the write of [`Self::hold_at`]; `None` before the proxy receives it.
    #[must_use]
    pub fn broken_write(&self) -> Option<String> {
        self.shared.lock().broken.clone()
    }

    /// True while the request of [`Self::hold_at`] is held.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.shared.lock().reached
    }

    /// Cuts every connection whose latest request's class starts with `class`. Returns their number. `GET /events` is
    /// the watch.
    pub fn cut(&self, class: &str) -> usize {
        let state = self.shared.lock();
        let hit: Vec<_> = state
            .live
            .values()
            .filter(|live| live.class.starts_with(class))
            .collect();
        for live in &hit {
            live.close();
        }
        hit.len()
    }

    /// Number of open connections whose latest request's class starts with `class`.
    #[must_use]
    pub fn open_connections(&self, class: &str) -> usize {
        let state = self.shared.lock();
        let open = state.live.values().filter(|live| live.class.starts_with(class));
        open.count()
    }

    /// Closes all connections, and every new one immediately.
    pub fn refuse(&self) {
        self.shared.lock().refusing = true;
        self.cut("");
    }

    /// Passes nothing in either direction; connections stay open, as with a frozen engine.
    pub fn hang(&self) {
        self.shared.lock().hanging = true;
    }

    /// Ends every fault.
    pub fn heal(&self) {
        let mut state = self.shared.lock();
        state.refusing = false;
        state.hanging = false;
        state.faults.clear();
        state.point = None;
        state.healed += 1;
        self.shared.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.heal();
        self.refuse();
        drop(std::fs::remove_file(&self.socket));
    }
}

impl Live {
    fn close(&self) {
        drop(self.client.shutdown(Shutdown::Both));
        drop(self.engine.shutdown(Shutdown::Both));
    }
}

fn serve(shared: &Arc<Shared>, client: UnixStream, engine: &Path) {
    let Ok(upstream) = UnixStream::connect(engine) else {
        return;
    };
    let (Ok(client_too), Ok(upstream_too)) = (client.try_clone(), upstream.try_clone()) else {
        return;
    };
    let (Ok(client_out), Ok(upstream_in)) = (client.try_clone(), upstream.try_clone()) else {
        return;
    };
    let id = {
        let mut state = shared.lock();
        state.next += 1;
        let id = state.next;
        let live = Live {
            client: client_too,
            engine: upstream_too,
            class: String::new(),
            swallow: false,
            hold: false,
            cut: false,
        };
        state.live.insert(id, live);
        id
    };
    let there = Arc::clone(shared);
    std::thread::spawn(move || {
        pass_requests(&there, id, client, upstream);
    });
    let back = Arc::clone(shared);
    std::thread::spawn(move || {
        pass_answers(&back, id, upstream_in, client_out);
        if let Some(live) = back.lock().live.remove(&id) {
            live.close();
        }
    });
}

fn pass_requests(shared: &Shared, id: u64, mut client: UnixStream, mut engine: UnixStream) {
    let mut framing = Framing::default();
    let mut buffer = [0; 16 * 1024];
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        shared.gate();
        for piece in framing.feed(&buffer[..count]) {
            let sent = match piece {
                Piece::Request { class, request } => {
                    let fault = note(shared, id, class, request);
                    match fault {
                        Some(Fault::Hang) => shared.hang_until_healed(),
                        Some(Fault::HoldBefore) => shared.hold(),
                        Some(Fault::Delay(span)) => shared.hang_for(span),
                        Some(Fault::Answer(bytes)) => drop(client.write_all(bytes.as_bytes())),
                        Some(Fault::CloseBefore | Fault::CloseAfter | Fault::HoldAfter | Fault::Cut)
                        | None => {}
                    }
                    !matches!(
                        fault,
                        Some(Fault::CloseBefore | Fault::HoldBefore | Fault::Answer(_))
                    )
                }
                Piece::Bytes(bytes) => engine.write_all(&bytes).is_ok(),
            };
            if !sent {
                drop(client.shutdown(Shutdown::Both));
                drop(engine.shutdown(Shutdown::Both));
                return;
            }
        }
    }
    // A client that half-closes (an attach, a build context) still expects its response.
    drop(engine.shutdown(Shutdown::Write));
}

fn pass_answers(shared: &Shared, id: u64, mut engine: UnixStream, mut client: UnixStream) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(count @ 1..) = engine.read(&mut buffer) {
        shared.gate();
        let (swallow, hold, cut) = {
            let state = shared.lock();
            let live = state.live.get(&id);
            (
                live.is_none_or(|live| live.swallow),
                live.is_some_and(|live| live.hold),
                live.is_some_and(|live| live.cut),
            )
        };
        if hold {
            shared.hold();
        }
        if cut {
            drop(client.write_all(&buffer[..count / 2]));
        }
        if swallow {
            break;
        }
        // Before the write: the client may send its next request immediately after it.
        shared.count_served(id, count);
        if client.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
}

/// Counts a request. Returns its fault, if any.
fn note(shared: &Shared, id: u64, class: String, request: String) -> Option<Fault> {
    let mut state = shared.lock();
    let hit = state
        .faults
        .iter_mut()
        .find(|(wanted, _, left)| *left > 0 && class.starts_with(wanted.as_str()));
    let fault = hit.map(|(_, fault, left)| {
        *left -= 1;
        *fault
    });
    let fault = fault.or_else(|| at_point(&mut state, &class, &request));
    if let Some(live) = state.live.get_mut(&id) {
        live.class.clone_from(&class);
        live.hold = fault == Some(Fault::HoldAfter);
        live.cut = fault == Some(Fault::Cut);
        live.swallow = live.hold || live.cut || fault == Some(Fault::CloseAfter);
    }
    let at = crate::wait::now();
    state.seen.push(Seen { class, request, at });
    fault
}

/// Counts the writes down to the one to break.
fn at_point(state: &mut State, class: &str, request: &str) -> Option<Fault> {
    if class.starts_with("GET ") || class.starts_with("HEAD ") {
        return None;
    }
    let point = state.point.as_mut()?;
    if !point.has_leases && is_of_a_lease(class, request) {
        return None;
    }
    if let Some(left) = point.passing.checked_sub(1) {
        point.passing = left;
        return None;
    }
    state.broken = Some(class.to_owned());
    state.point.take().map(|point| point.fault)
}

/// True for a call that renews or removes a lease. The name of a new volume is in no URL.
fn is_of_a_lease(class: &str, request: &str) -> bool {
    class == "POST /volumes/create" || request.contains("/volumes/argus-lease-")
}
