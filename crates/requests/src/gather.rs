//! Many requests at once.

use std::future::Future;

use futures_util::future::join_all;
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use crate::{Credit, Expect};

impl Credit {
    /// Makes all requests, each when it has its slot, and gives the results in the order of the requests. A request is a future
    /// that does nothing before it is polled, as all `async` blocks are.
    ///
    /// Whatever a result is, the others are waited for. Dropped, it drops all requests: those that wait are withdrawn, and
    /// those that were sent give their credit back after their futures are dropped. A panic in one of them does the same.
    pub async fn gather<F: Future>(&self, requests: impl IntoIterator<Item = (Expect, F)>) -> Vec<F::Output> {
        join_all(requests.into_iter().map(|(expect, request)| self.run(expect, request))).await
    }

    /// The same until one of them fails: then all others are dropped.
    ///
    /// # Errors
    /// The first error of a request, in time.
    pub async fn try_gather<T, E, F>(&self, requests: impl IntoIterator<Item = (Expect, F)>) -> Result<Vec<T>, E>
    where
        F: Future<Output = Result<T, E>>,
    {
        // Not `try_join_all`: with more than 30 it keeps an error until all requests before that are over.
        let requests = requests.into_iter().enumerate();
        let mut left: FuturesUnordered<_> =
            requests.map(|(at, (expect, request))| async move { (at, self.run(expect, request).await) }).collect();
        let mut came: Vec<_> = std::iter::repeat_with(|| None).take(left.len()).collect();
        while let Some((at, response)) = left.next().await {
            came[at] = Some(response?);
        }
        Ok(came.into_iter().flatten().collect())
    }

    /// Makes one request when it has its slot.
    pub async fn run<F: Future>(&self, expect: Expect, request: F) -> F::Output {
        let mut slot = self.slot(expect).await;
        let expected = slot.fails_unless_it_came();
        // On a drop or a panic the request goes first: it was made later.
        let response = Box::pin(request).await;
        slot.came(expected);
        response
    }
}
