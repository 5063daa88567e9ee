// The end of a story that goes on: its last entries first, then what comes, then, when asked, what
// was before. It keeps so many entries and no more, however long the page is open.
import { useCallback, useEffect, useState } from "preact/hooks";
import { again } from "./connection.ts";
import { Poller } from "./poller.ts";
import { ApiError, read } from "./request.ts";

export const NEWEST = 2 ** 53;
const KEPT = 5000;

interface Entry {
  seq: number;
}

export interface Page<T> {
  items: T[];
  next: number;
  more: boolean;
}

export interface Tail<T> {
  items: readonly T[];
  /** The newest answer has come. */
  ready: boolean;
  hasOlder: boolean;
  error: ApiError | null;
  older(): Promise<void>;
}

interface Held<T> {
  items: T[];
  hasOlder: boolean;
}

/** The entries with newer ones behind them; of too many the oldest go. */
export function withNewer<T extends Entry>(held: Held<T>, items: T[], kept = KEPT): Held<T> {
  const last = held.items.at(-1)?.seq ?? -1;
  const all = [...held.items, ...items.filter((item) => item.seq > last)];
  if (all.length <= kept) return { items: all, hasOlder: held.hasOlder };
  return { items: all.slice(-kept), hasOlder: true };
}

/** What is at the path, of which `more` are the parameters beside `after`, `before`, `limit`. */
export function useTail<T extends Entry>(
  path: string,
  more: string,
  limit: number,
  everyMs: number,
): Tail<T> {
  const [held, setHeld] = useState<Held<T> | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [place, setPlace] = useState<{ after: number; isBehind: boolean } | null>(null);
  const after = place?.after ?? null;
  const suffix = more && `&${more}`;

  useEffect(() => {
    setHeld(null);
    setPlace(null);
  }, [path, more]);

  useEffect(() => {
    const from = after === null ? `before=${NEWEST}` : `after=${after}`;
    const take = (page: Page<T>) => {
      if (after === null) setHeld({ items: page.items, hasOlder: page.more });
      else if (page.items.length > 0) setHeld((held) => held && withNewer(held, page.items));
      const isBehind = after !== null && page.more;
      if (after === null || page.next !== after) setPlace({ after: page.next, isBehind });
    };
    const poller = new Poller(`${path}?limit=${limit}&${from}${suffix}`, everyMs, {
      data: (body) => take(body as Page<T>),
      error: setError,
    });
    const look = () => (document.hidden ? poller.stop() : void poller.now());
    // What was just told is not asked about again at once.
    const first = setTimeout(look, place === null || place.isBehind ? 0 : everyMs);
    document.addEventListener("visibilitychange", look);
    const unwatch = again.watch(look);
    return () => {
      clearTimeout(first);
      document.removeEventListener("visibilitychange", look);
      unwatch();
      poller.stop();
    };
  }, [path, more, limit, after, everyMs]);

  const older = useCallback(async () => {
    const first = held?.items[0];
    if (!first) return;
    const page = await read<Page<T>>(`${path}?limit=${limit}&before=${first.seq}${suffix}`);
    setHeld((now) => now && { items: [...page.items, ...now.items], hasOlder: page.more });
  }, [path, more, limit, held?.items[0]?.seq]);

  return { items: held?.items ?? [], ready: held !== null, hasOlder: held?.hasOlder ?? false, error, older };
}
