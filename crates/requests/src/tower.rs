//! A layer for services of HTTP.
//!
//! A slot is asked for inside the future of `call`, as nobody knows the size of a response before there is a request. It is held
//! until the body of the response has come or is dropped: a client that drops half a body closes the connection (HTTP/1),
//! or resets the stream (HTTP/2).
//!
//! So read or drop each body as soon as its head has come. To wait for all heads first never ends where their responses do not fit into
//! the budget together: those that came hold it, and the others wait for it. The same holds for a service that has such a layer inside
//! and outside, with one [`Credit`].

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Buf;
#[cfg(target_os = "linux")]
use http::Extensions;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

#[cfg(target_os = "linux")]
use crate::connections::{Claim, ConnectionId, Connections};
use crate::{Credit, Expect, Slot};

/// Gives every request of a service its slot.
#[derive(Clone, Debug)]
pub struct CreditLayer<E> {
    credit: Credit,
    expect: E,
    #[cfg(target_os = "linux")]
    connections: Option<Connections>,
}

impl<E> CreditLayer<E> {
    /// `expect` says what is expected of the response to a request.
    pub const fn new(credit: Credit, expect: E) -> Self {
        Self {
            credit,
            expect,
            #[cfg(target_os = "linux")]
            connections: None,
        }
    }

    /// Requests go over these connections, so their windows are limited. If some are free, a request costs no more than the widest of them.
    /// What comes out of order is told to the scheduler. Where a connection takes one request at a time, the credit of a body that is dropped
    /// is kept until nothing more can come of it.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn over(mut self, connections: &Connections) -> Self {
        self.connections = Some(connections.clone());
        self
    }
}

impl<S, E: Clone> Layer<S> for CreditLayer<E> {
    type Service = CreditService<S, E>;

    fn layer(&self, inner: S) -> Self::Service {
        CreditService {
            inner,
            credit: self.credit.clone(),
            expect: self.expect.clone(),
            #[cfg(target_os = "linux")]
            connections: self.connections.clone(),
        }
    }
}

/// A service whose requests wait for their slots.
#[derive(Clone, Debug)]
pub struct CreditService<S, E> {
    inner: S,
    credit: Credit,
    expect: E,
    #[cfg(target_os = "linux")]
    connections: Option<Connections>,
}

impl<S, E, A, B> Service<Request<A>> for CreditService<S, E>
where
    S: Service<Request<A>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    E: Fn(&Request<A>) -> Expect,
    A: Send + 'static,
    B: Body + Send,
{
    type Response = Response<CreditBody<B>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        // A request that waits for its slot must not hold what the inner service reserves for it.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let expect = (self.expect)(&request);
        let credit = self.credit.clone();
        let mut inner = self.inner.clone();
        #[cfg(target_os = "linux")]
        let connections = self.connections.clone();
        Box::pin(async move {
            #[cfg(target_os = "linux")]
            let (expect, claim) = match connections {
                Some(connections) => connections.claim(request.uri(), &credit, expect),
                None => (expect, None),
            };
            let mut held = Held {
                slot: credit.slot(expect).await,
                #[cfg(target_os = "linux")]
                claim,
            };
            // What comes of the body is told. Nothing else has come, however it ends.
            held.slot.fails_unless_it_came();
            poll_fn(|context| inner.poll_ready(context)).await?;
            #[cfg(target_os = "linux")]
            held.goes();
            let response = inner.call(request).await?;
            #[cfg(target_os = "linux")]
            held.comes(response.extensions());
            Ok(response.map(|body| {
                if body.is_end_stream() {
                    held.ends();
                    return CreditBody { body, held: None };
                }
                CreditBody { body, held: Some(held) }
            }))
        })
    }
}

/// What a request holds until its response has come.
#[derive(Debug)]
struct Held {
    slot: Slot,
    #[cfg(target_os = "linux")]
    claim: Option<Claim>,
}

impl Held {
    /// It is sent next.
    #[cfg(target_os = "linux")]
    fn goes(&mut self) {
        if let Some(claim) = &mut self.claim {
            claim.goes(&mut self.slot);
        }
    }

    /// Its head has come.
    #[cfg(target_os = "linux")]
    fn comes(&mut self, extensions: &Extensions) {
        if let (Some(claim), Some(id)) = (&mut self.claim, extensions.get::<ConnectionId>()) {
            claim.comes_over(*id, &mut self.slot);
        }
    }

    /// All of it has come.
    fn ends(self) {
        #[cfg(target_os = "linux")]
        let slot = match self.claim {
            Some(claim) => claim.came(self.slot),
            None => self.slot,
        };
        #[cfg(not(target_os = "linux"))]
        let slot = self.slot;
        slot.finish_as_told();
    }
}

/// All of a response has come, if it has not come before.
fn end(held: &mut Option<Held>) {
    if let Some(held) = held.take() {
        held.ends();
    }
}

pin_project! {
    /// A body that holds the slot of its request until it has come.
    #[derive(Debug)]
    pub struct CreditBody<B> {
        // Dropped before its slot.
        #[pin]
        body: B,
        held: Option<Held>,
    }
}

impl<B: Body> Body for CreditBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let mut this = self.project();
        let frame = ready!(this.body.as_mut().poll_frame(context));
        match &frame {
            Some(Ok(frame)) => {
                if let (Some(held), Some(data)) = (this.held.as_mut(), frame.data_ref()) {
                    held.slot.progress(data.remaining() as u64);
                }
                // It may be kept, and not be asked again.
                if this.body.is_end_stream() {
                    end(this.held);
                }
            }
            None => end(this.held),
            // Nothing more is asked for.
            Some(Err(_)) => drop(this.held.take()),
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
