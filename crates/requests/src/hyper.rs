//! A connector for pools of hyper, whose connections a [layer](crate::tower::CreditLayer) then knows.
//!
//! ```no_run
//! use bytes::Bytes;
//! use http::Request;
//! use http_body_util::Empty;
//! use hyper_util::client::legacy::{Client, connect::HttpConnector};
//! use hyper_util::rt::TokioExecutor;
//! use incast_requests::connections::Connections;
//! use incast_requests::hyper::Connector;
//! use incast_requests::tower::CreditLayer;
//! use incast_requests::{Credit, Expect};
//! use tower_layer::Layer as _;
//!
//! let credit = Credit::builder().port(10_000_000_000, 131_072).build();
//! let connections = Connections::new();
//! let connector = Connector::new(HttpConnector::new(), &connections);
//! let pool: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
//! let layer = CreditLayer::new(credit, |_: &Request<Empty<Bytes>>| Expect::bytes(32_768)).over(&connections);
//! let service = layer.layer(pool);
//! ```
//!
//! With TLS it goes inside: a connector for TLS has this one as the one that opens TCP.

use std::future::Future;
use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::hyper::rt::{Read, ReadBufCursor, Write};
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::connections::{Connections, Registered};

/// Connects as another connector does, and makes the connections known.
#[derive(Clone, Debug)]
pub struct Connector<C> {
    inner: C,
    connections: Connections,
}

impl<C> Connector<C> {
    /// What `inner` connects becomes one of `connections`.
    pub fn new(inner: C, connections: &Connections) -> Self {
        Self { inner, connections: connections.clone() }
    }
}

impl<C, T> Service<Uri> for Connector<C>
where
    C: Service<Uri, Response = TokioIo<T>>,
    C::Future: Send + 'static,
    C::Error: 'static,
    T: AsFd + 'static,
{
    type Response = Stream<T>;
    type Error = C::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Stream<T>, C::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let connecting = self.inner.call(server.clone());
        let connections = self.connections.clone();
        Box::pin(async move {
            let io = connecting.await?;
            // A socket that is not TCP has no window, and costs whole responses.
            let registered = connections.add(&server, io.inner()).ok();
            Ok(Stream { io, registered })
        })
    }
}

pin_project! {
    /// A connection that is known as long as it is open.
    #[derive(Debug)]
    pub struct Stream<T> {
        #[pin]
        io: TokioIo<T>,
        registered: Option<Registered>,
    }
}

impl<T> Connection for Stream<T>
where
    TokioIo<T>: Connection,
{
    fn connected(&self) -> Connected {
        let connected = self.io.connected();
        match &self.registered {
            Some(registered) => connected.extra(registered.id()),
            None => connected,
        }
    }
}

impl<T> Read for Stream<T>
where
    TokioIo<T>: Read,
{
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        self.project().io.poll_read(context, into)
    }
}

impl<T> Write for Stream<T>
where
    TokioIo<T>: Write,
{
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.project().io.poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().io.poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.project().io.poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.project().io.poll_write_vectored(context, slices)
    }
}
