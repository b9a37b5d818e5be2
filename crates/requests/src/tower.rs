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
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;
use tower_layer::Layer;
use tower_service::Service;

use crate::{Credit, Expect, Slot};

/// Gives every request of a service its slot.
#[derive(Clone, Debug)]
pub struct CreditLayer<E> {
    credit: Credit,
    expect: E,
}

impl<E> CreditLayer<E> {
    /// `expect` says what is expected of the response to a request.
    pub const fn new(credit: Credit, expect: E) -> Self {
        Self { credit, expect }
    }
}

impl<S, E: Clone> Layer<S> for CreditLayer<E> {
    type Service = CreditService<S, E>;

    fn layer(&self, inner: S) -> Self::Service {
        CreditService { inner, credit: self.credit.clone(), expect: self.expect.clone() }
    }
}

/// A service whose requests wait for their slots.
#[derive(Clone, Debug)]
pub struct CreditService<S, E> {
    inner: S,
    credit: Credit,
    expect: E,
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
        let slot = self.credit.slot((self.expect)(&request));
        let mut inner = self.inner.clone();
        Box::pin(async move {
            let mut slot = slot.await;
            // What comes of the body is told. Nothing else has come, however it ends.
            slot.fails_unless_it_came();
            poll_fn(|context| inner.poll_ready(context)).await?;
            let response = inner.call(request).await?;
            Ok(response.map(|body| CreditBody { slot: Some(slot).filter(|_| !body.is_end_stream()), body }))
        })
    }
}

pin_project! {
    /// A body that holds the slot of its request until it has come.
    #[derive(Debug)]
    pub struct CreditBody<B> {
        // Dropped before its slot.
        #[pin]
        body: B,
        slot: Option<Slot>,
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
                if let (Some(slot), Some(data)) = (this.slot.as_mut(), frame.data_ref()) {
                    slot.progress(data.remaining() as u64);
                }
                // It may be kept, and not be asked again.
                if this.body.is_end_stream() {
                    drop(this.slot.take());
                }
            }
            // What is wrong with the body is wrong with its connection.
            Some(Err(_)) | None => drop(this.slot.take()),
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
