//! Connections: how many, how long, how much they may say, and how they end.
//!
//! Whoever is beyond the limit waits to be accepted. A head must come within seconds and within 16
//! KiB, and a connection lives for minutes at most, so nobody keeps others out by being slow.

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// Connections at a time.
const MOST: usize = 64;
/// Until the head of a request is there, the next one of a connection included.
const HEAD: Duration = Duration::from_secs(10);
/// Of a connection.
const LIFE: Duration = Duration::from_secs(300);
/// Bytes of a head.
const HEAD_BYTES: usize = 16 << 10;
/// For what is being answered when the server ends.
const GRACE: Duration = Duration::from_secs(5);

/// Takes over a socket that listens.
pub(super) fn listening(listener: std::net::TcpListener) -> io::Result<TcpListener> {
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Serves until a signal asks to end, and answers what was asked by then.
pub(super) async fn serve(listener: TcpListener, router: Router) -> io::Result<()> {
    let ended = ended()?;
    let graceful = Arc::new(GracefulShutdown::new());
    let accepting = tokio::spawn(accept(listener, router, Arc::clone(&graceful)));
    ended.await;
    accepting.abort();
    let _ = accepting.await;
    if let Some(graceful) = Arc::into_inner(graceful) {
        let _ = timeout(GRACE, graceful.shutdown()).await;
    }
    Ok(())
}

async fn accept(listener: TcpListener, router: Router, graceful: Arc<GracefulShutdown>) {
    let places = Arc::new(Semaphore::new(MOST));
    loop {
        let place = Arc::clone(&places).acquire_owned().await.expect("it is never closed");
        let Ok((stream, _)) = listener.accept().await else {
            // Such as no more files that can be open: it passes.
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(HEAD_BYTES);
        let service = TowerToHyperService::new(router.clone());
        let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            let _ = timeout(LIFE, connection).await;
            drop(place);
        });
    }
}

/// Ready when somebody asks the process to end.
#[cfg(unix)]
fn ended() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut signals = [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?];
    Ok(poll_fn(move |context| {
        let come = signals.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
        if come { Poll::Ready(()) } else { Poll::Pending }
    }))
}

#[cfg(not(unix))]
fn ended() -> io::Result<impl Future<Output = ()>> {
    Ok(async {
        let _ = tokio::signal::ctrl_c().await;
    })
}
