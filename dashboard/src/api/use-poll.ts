// A hook that polls a path of the API.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
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
}

interface PollResult<T> {
  path: string;
  data: T;
}

/** Polls while the page is visible; a path of null polls nothing. */
export function usePoll<T>(path: string | null, intervalMs: number): Polled<T> {
  const [result, setResult] = useState<PollResult<T> | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const poller = useRef<Poller | null>(null);

  useEffect(() => {
    setError(null);
    if (path === null) return;
    const one = new Poller(path, intervalMs, {
      data: (body) => setResult({ path, data: body as T }),
      error: setError,
    });
    poller.current = one;
    const pollIfVisible = () => (document.hidden ? one.stop() : void one.pollNow());
    pollIfVisible();
    document.addEventListener("visibilitychange", pollIfVisible);
    const unsubscribe = retryCount.subscribe(pollIfVisible);
    return () => {
      document.removeEventListener("visibilitychange", pollIfVisible);
      unsubscribe();
      one.stop();
      poller.current = null;
    };
  }, [path]);

  useEffect(() => {
    if (poller.current) poller.current.intervalMs = intervalMs;
  }, [intervalMs]);

  const refresh = useCallback(() => void poller.current?.pollNow(), []);
  return { data: result?.data ?? null, stale: result !== null && result.path !== path, error, refresh };
}
