// A value that components watch.
import { useEffect, useState } from "preact/hooks";

export interface Cell<T> {
  get(): T;
  set(value: T): void;
  watch(listener: () => void): () => void;
}

export function cell<T>(value: T): Cell<T> {
  const listeners = new Set<() => void>();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const listener of [...listeners]) listener();
    },
    watch(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** The value of a cell; the component renders again when it changes. */
export function useCell<T>(source: Cell<T>): T {
  const [value, setValue] = useState(() => source.get());
  useEffect(() => {
    const update = () => setValue(() => source.get());
    update(); // it may have changed between the first render and now
    return source.watch(update);
  }, [source]);
  return value;
}
