// A component's view of something at the API that changes.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { again } from "./connection.ts";
import { Poller } from "./poller.ts";
import type { ApiError } from "./request.ts";

export interface Polled<T> {
  /** The newest answer; null until there is one. */
  data: T | null;
  /** True while `data` answers an earlier question. */
  stale: boolean;
  error: ApiError | null;
  /** Ask at once, as after a change. */
  refresh(): void;
}

interface Got<T> {
  path: string;
  data: T;
}

/** What is at the path, asked for every so often while the page is seen; null asks for nothing. */
export function usePoll<T>(path: string | null, everyMs: number): Polled<T> {
  const [got, setGot] = useState<Got<T> | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const poller = useRef<Poller | null>(null);

  useEffect(() => {
    setError(null);
    if (path === null) return;
    const one = new Poller(path, everyMs, {
      data: (body) => setGot({ path, data: body as T }),
      error: setError,
    });
    poller.current = one;
    const look = () => (document.hidden ? one.stop() : void one.now());
    look();
    document.addEventListener("visibilitychange", look);
    const unwatch = again.watch(look);
    return () => {
      document.removeEventListener("visibilitychange", look);
      unwatch();
      one.stop();
      poller.current = null;
    };
  }, [path]);

  useEffect(() => {
    if (poller.current) poller.current.everyMs = everyMs;
  }, [everyMs]);

  const refresh = useCallback(() => void poller.current?.now(), []);
  return { data: got?.data ?? null, stale: got !== null && got.path !== path, error, refresh };
}
