//! Limits of this process that the system tells by a signal.
//!
//! A file that grows beyond what `ulimit -f` allows would end the process where it stands, without a
//! word and with what it was writing left behind.
//! Invariant: what a limit stops is an error of the call that met it.

/// Has a file that would grow beyond the limit of its size fail to be written, from now on.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "what a signal does is set by a system call without a safe wrapper")]
pub fn tell_of_file_sizes() {
    // SAFETY: the signal is ignored, so no code of ours runs in a handler; the call takes two numbers.
    let before = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    debug_assert_ne!(before, libc::SIG_ERR, "the signal is one that may be ignored");
}

/// Has a file that would grow beyond the limit of its size fail to be written; only on Linux.
#[cfg(not(target_os = "linux"))]
pub fn tell_of_file_sizes() {}
