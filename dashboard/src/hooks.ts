// Hooks: values that components subscribe to, the current time, and work that runs once at a time.
import { useEffect, useRef, useState } from "preact/hooks";

export interface Observable<T> {
  get(): T;
  set(value: T): void;
  subscribe(listener: () => void): () => void;
}

export function observable<T>(value: T): Observable<T> {
  const listeners = new Set<() => void>();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const listener of [...listeners]) listener();
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** The value of an observable; the component renders again when it changes. */
export function useObservable<T>(source: Observable<T>): T {
  const [value, setValue] = useState(() => source.get());
  useEffect(() => {
    const update = () => setValue(() => source.get());
    update(); // it may have changed since the first render
    return source.subscribe(update);
  }, [source]);
  return value;
}

/** The current time in milliseconds, updated at an interval. */
export function useNow(intervalMs: number): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), intervalMs);
    return () => clearInterval(timer);
  }, [intervalMs]);
  return now;
}

/** A function that does nothing while its last call is under way, and whether one is. */
export function useOneAtATime(work: () => Promise<void>): [run: () => void, isBusy: boolean] {
  const [isBusy, setBusy] = useState(false);
  const isRunning = useRef(false);
  const run = async () => {
    if (isRunning.current) return;
    isRunning.current = true;
    setBusy(true);
    try {
      await work();
    } finally {
      isRunning.current = false;
      setBusy(false);
    }
  };
  return [() => void run(), isBusy];
}
