// A hook for the end of a growing list: the last entries first, then new ones, and older ones on
// request. It keeps a limited number of entries, however long the page is open.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { retryCount } from "./connection.ts";
import { Poller } from "./poller.ts";
import { ApiError, getJson } from "./request.ts";

export const AFTER_EVERY_SEQ = 2 ** 53;
const MAX_ENTRIES = 5000;

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
  /** True once the last entries have loaded. */
  ready: boolean;
  hasOlder: boolean;
  error: ApiError | null;
  loadOlder(): Promise<void>;
}

interface TailEntries<T> {
  items: T[];
  hasOlder: boolean;
}

/** Append newer entries; beyond the limit the oldest ones are dropped. */
export function appendNewer<T extends Entry>(entries: TailEntries<T>, items: T[], maxEntries = MAX_ENTRIES): TailEntries<T> {
  const last = entries.items.at(-1)?.seq ?? -1;
  const all = [...entries.items, ...items.filter((item) => item.seq > last)];
  if (all.length <= maxEntries) return { items: all, hasOlder: entries.hasOlder };
  return { items: all.slice(-maxEntries), hasOlder: true };
}

/**
 * Polls the path; `more` are query parameters besides `after`, `before` and `limit`. A component
 * that gets another path or other parameters needs another key. It polls at once when `pulse` changes.
 */
export function useTail<T extends Entry>(
  path: string,
  more: string,
  limit: number,
  intervalMs: number,
  pulse = 0,
): Tail<T> {
  const [entries, setEntries] = useState<TailEntries<T> | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [cursor, setCursor] = useState<{ after: number; isBehind: boolean } | null>(null);
  const current = useRef<Poller | null>(null);
  const after = cursor?.after ?? null;
  const suffix = more && `&${more}`;

  useEffect(() => {
    const from = after === null ? `before=${AFTER_EVERY_SEQ}` : `after=${after}`;
    const take = (page: Page<T>) => {
      if (after === null) setEntries({ items: page.items, hasOlder: page.more });
      else if (page.items.length > 0) setEntries((entries) => entries && appendNewer(entries, page.items));
      const isBehind = after !== null && page.more;
      if (after === null || page.next !== after) setCursor({ after: page.next, isBehind });
    };
    const poller = new Poller(`${path}?limit=${limit}&${from}${suffix}`, intervalMs, {
      data: (body) => take(body as Page<T>),
      error: setError,
    });
    current.current = poller;
    const pollIfVisible = () => (document.hidden ? poller.stop() : void poller.pollNow());
    // The last response was complete: the next request waits for one interval.
    const first = setTimeout(pollIfVisible, cursor === null || cursor.isBehind ? 0 : intervalMs);
    document.addEventListener("visibilitychange", pollIfVisible);
    const unsubscribe = retryCount.subscribe(pollIfVisible);
    return () => {
      clearTimeout(first);
      document.removeEventListener("visibilitychange", pollIfVisible);
      unsubscribe();
      poller.stop();
    };
  }, [path, more, limit, after, intervalMs]);

  useEffect(() => {
    if (pulse > 0 && !document.hidden) current.current?.pollSoon();
  }, [pulse]);

  const loadOlder = useCallback(async () => {
    const first = entries?.items[0];
    if (!first) return;
    const page = await getJson<Page<T>>(`${path}?limit=${limit}&before=${first.seq}${suffix}`);
    const prepend = (current: TailEntries<T>) => ({ items: [...page.items, ...current.items], hasOlder: page.more });
    // Not if another request has prepended these entries, or new ones pushed out the first.
    setEntries((current) => (current?.items[0] === first ? prepend(current) : current));
  }, [path, more, limit, entries?.items[0]?.seq]);

  return { items: entries?.items ?? [], ready: entries !== null, hasOlder: entries?.hasOlder ?? false, error, loadOlder };
}
