//! Which responses may fill the limited window of their connection.

/// Requests under way over connections that are known, by the numbers of their sockets. Streams of HTTP/2 share a window.
#[derive(Clone, Debug, Default)]
pub struct UnderWay(Vec<u32>);

impl UnderWay {
    /// One more, over the connection whose socket is `fd`. Whether its window is limited, to `window_bytes`, and responses may fill that: this
    /// one, by the bytes that are expected of it, or several together. A quarter of the window is left for headers, and for more than
    /// was expected.
    #[must_use]
    pub fn add(&mut self, fd: i32, expected_bytes: Option<u64>, window_bytes: Option<u64>) -> bool {
        let mut others = 0;
        if let Ok(at) = usize::try_from(fd) {
            if self.0.len() <= at {
                self.0.resize(at + 1, 0);
            }
            others = self.0[at];
            self.0[at] += 1;
        }
        let may_fill = |window| others > 0 || expected_bytes.is_none_or(|bytes| bytes > window / 4 * 3);
        window_bytes.is_some_and(may_fill)
    }

    /// One less.
    pub fn remove(&mut self, fd: i32) {
        if let Some(requests) = usize::try_from(fd).ok().and_then(|at| self.0.get_mut(at)) {
            debug_assert!(*requests > 0, "socket {fd}");
            *requests = requests.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_may_fill_a_window_if_it_is_large_unknown_or_not_alone() {
        let mut under_way = UnderWay::default();
        assert!(!under_way.add(7, Some(6000), Some(8000)));
        assert!(under_way.add(7, Some(1), Some(8000)), "another is under way over the same connection");
        under_way.remove(7);
        under_way.remove(7);
        assert!(!under_way.add(7, Some(1), Some(8000)), "it is alone again");
        under_way.remove(7);
        assert!(under_way.add(7, Some(6001), Some(8000)));
        assert!(under_way.add(3, None, Some(8000)), "nobody knows how large it is");
        assert!(!under_way.add(5, None, None), "its window is not limited");
        assert!(under_way.add(5, Some(1), Some(8000)), "the other began before it was");
        assert!(!under_way.add(-1, Some(1), Some(8000)), "the socket is closed");
        under_way.remove(-1);
    }
}
