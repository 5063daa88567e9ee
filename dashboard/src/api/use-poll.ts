// A hook that polls a path of the API.
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { retryCount } from "./connection.ts";
import { Poller } from "./poller.ts";
import type { ApiError } from "./request.ts";

export interface Polled<T> {
  /** The newest data; null until they have loaded. */
  data: T | null;
  /** True while `data` still belong to an earlier path. */
  stale: boolean;
  error: ApiError | null;
  /** Poll at once, as after a change. */
  refresh(): void;
  /** Change the data, as the event stream says; the next response replaces them. Null: poll. */
  update(change: (data: T) => T | null): void;
}

interface PollResult<T> {
  path: string;
  data: T;
}

/**
 * Polls while the page is visible, and when `pulse` changes; a path of null polls nothing.
 *
 * `join(known, response)` is what is shown after a response: the server may have written it before
 * what the event stream has brought since the request.
 */
export function usePoll<T>(
  path: string | null, intervalMs: number, pulse = 0, join: (known: T, response: T) => T = (_, response) => response,
): Polled<T> {
  const [result, setResult] = useState<PollResult<T> | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const poller = useRef<Poller | null>(null);
  const latest = useRef<PollResult<T> | null>(null);
  const show = useCallback((next: PollResult<T>) => {
    latest.current = next;
    setResult(next);
  }, []);

  // At once: an effect would wait until the page has been painted with the data of the earlier path.
  useLayoutEffect(() => {
    setError(null);
    if (path === null) return;
    const current = new Poller(path, intervalMs, {
      data: (body) => {
        const known = latest.current;
        show({ path, data: known?.path === path ? join(known.data, body as T) : (body as T) });
      },
      error: setError,
    });
    poller.current = current;
    const pollIfVisible = () => (document.hidden ? current.stop() : void current.pollNow());
    pollIfVisible();
    document.addEventListener("visibilitychange", pollIfVisible);
    const unsubscribe = retryCount.subscribe(pollIfVisible);
    return () => {
      document.removeEventListener("visibilitychange", pollIfVisible);
      unsubscribe();
      current.stop();
      poller.current = null;
    };
  }, [path]);

  useEffect(() => {
    const current = poller.current;
    if (current === null) return;
    const isShorter = intervalMs < current.intervalMs;
    current.intervalMs = intervalMs;
    // As when the event stream is lost: the timer that runs is that of the longer interval.
    if (isShorter && !document.hidden) current.pollSoon();
  }, [intervalMs]);

  useEffect(() => {
    if (pulse > 0 && !document.hidden) poller.current?.pollSoon();
  }, [pulse]);

  const refresh = useCallback(() => void poller.current?.pollNow(), []);
  const update = useCallback((change: (data: T) => T | null) => {
    const known = latest.current;
    if (known === null || known.path !== poller.current?.path) return;
    const data = change(known.data);
    if (data === null) poller.current.pollSoon();
    else show({ path: known.path, data });
  }, []);
  return { data: result?.data ?? null, stale: result !== null && result.path !== path, error, refresh, update };
}
