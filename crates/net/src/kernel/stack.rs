//! The stack of another thread, which may be in any state: in a loop, in a system call, holding any lock.
//!
//! A signal makes the thread walk its own stack. The handler only stores addresses; the caller looks up the names. The worst outcome is
//! no response, for which the wait is bounded.

use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

/// Ignored by default, sent by the kernel only on request (SO_OOBINLINE's counterpart), and used by nothing else in this process.
const SIGNAL: libc::c_int = libc::SIGURG;
/// Maximum number of frames.
const MOST: usize = 128;
/// How long a thread may take to respond. It responds at once, unless it is blocked in the kernel.
const PATIENCE: Duration = Duration::from_millis(500);

/// The thread being asked; 0: none.
static ASKED: AtomicI32 = AtomicI32::new(0);
/// Its response, and its length; `usize::MAX`: none yet.
static ADDRESSES: [AtomicUsize; MOST] = [const { AtomicUsize::new(0) }; MOST];
static COUNT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// The kernel's id of this thread.
pub(crate) fn thread_id() -> i32 {
    // SAFETY: it takes nothing, and cannot fail.
    unsafe { libc::gettid() }
}

/// The return addresses of a thread of this process, innermost first. Waits up to half a second; `None`: the thread did not respond.
pub(crate) fn stack_of(thread: i32) -> Option<Vec<usize>> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    static PREPARED: Once = Once::new();
    // It protects the statics above, which are valid in any state.
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    PREPARED.call_once(prepare);
    COUNT.store(usize::MAX, Ordering::SeqCst);
    ASKED.store(thread, Ordering::SeqCst);
    // SAFETY: plain numbers. A thread that has ended gives an error; its number is not reused within one process before four million threads have started.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, SIGNAL) };
    let until = Instant::now() + PATIENCE;
    while sent == 0 && COUNT.load(Ordering::SeqCst) == usize::MAX && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    ASKED.store(0, Ordering::SeqCst);
    let count = Some(COUNT.load(Ordering::SeqCst)).filter(|count| *count != usize::MAX)?;
    Some(ADDRESSES.iter().take(count).map(|address| address.load(Ordering::SeqCst)).collect())
}

fn prepare() {
    // The unwinder finds its tables at its first use, with allocations and locks: not in the handler, then.
    backtrace::trace(|_| true);
    // SAFETY: all of it is a number or a set of signals, for which zero is a value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    let handler: extern "C" fn(libc::c_int) = handle;
    action.sa_sigaction = handler as usize;
    // A system call that the signal interrupts begins again.
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: `action` is whole, lives as long as the call, and its handler does only what a handler may (see there).
    unsafe { libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut()) };
}

/// Runs on the thread being asked, and interrupts it anywhere. Stores to atomics, and walks the stack; no allocation, no lock of ours. (Since 2.35 the C library finds
/// unwind tables without a lock; before, a thread that hangs in loading a library would not respond.)
extern "C" fn handle(_signal: libc::c_int) {
    // SAFETY: the location of this thread's errno is valid for as long as the thread runs; the handler restores the value of the interrupted code.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    if ASKED.load(Ordering::SeqCst) == thread_id() {
        let mut count = 0;
        // SAFETY: it must not run on two threads at once, since looking up names is not synchronised. It looks none up, and only one thread is asked at a time.
        unsafe {
            backtrace::trace_unsynchronized(|frame| {
                if let Some(place) = ADDRESSES.get(count) {
                    place.store(frame.ip() as usize, Ordering::SeqCst);
                    count += 1;
                }
                count < MOST
            });
        }
        COUNT.store(count, Ordering::SeqCst);
    }
    // SAFETY: as above.
    unsafe { *errno = before };
}

#[cfg(test)]
mod tests {
    use std::hint::spin_loop;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;

    use super::*;

    static STOP: AtomicBool = AtomicBool::new(false);

    #[inline(never)]
    fn a_loop_without_an_end(number: &mpsc::Sender<i32>) {
        // Sent from in here: a thread asked before that is elsewhere.
        number.send(thread_id()).unwrap();
        while !STOP.load(Ordering::Relaxed) {
            spin_loop();
        }
    }

    #[test]
    fn a_thread_in_a_loop_and_one_in_a_system_call_tell_where_they_are() {
        let (number, numbers) = mpsc::channel();
        let sender = number.clone();
        let looping = std::thread::spawn(move || a_loop_without_an_end(&sender));
        let stack = stack_of(numbers.recv().unwrap()).unwrap();
        let text = keepwarm_telemetry::stack::describe(&stack);
        assert!(text.contains("a_loop_without_an_end"), "{text}");
        assert!(!text.contains("stack::handle"), "the handler is not part of it: {text}");
        STOP.store(true, Ordering::Relaxed);
        looping.join().unwrap();

        let (end, ended) = mpsc::channel::<()>();
        let waiting = std::thread::spawn(move || {
            number.send(thread_id()).unwrap();
            ended.recv()
        });
        let waits = numbers.recv().unwrap();
        assert!(!stack_of(waits).unwrap().is_empty());
        end.send(()).unwrap();
        waiting.join().unwrap().unwrap();
        assert_eq!(stack_of(waits), None, "it has ended");
    }
}
