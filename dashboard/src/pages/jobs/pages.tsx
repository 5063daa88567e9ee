// The pages of the list. A page is an address, so that it can be shared, and the way back leads to it.
import { filtersHref, type Filters } from "./filters.ts";

interface Place {
  number: number;
  /** The cursor of the page before; empty for the first one. */
  previous: string;
}

/** Where pages are that were reached from the first one: cursors lead only forward. */
const places = new Map<string, Place>();

export function Pages({ filters, next }: { filters: Filters; next: string | null }) {
  if (!filters.cursor && next === null) return null;
  const place = filters.cursor === "" ? { number: 1, previous: "" } : places.get(filters.cursor);
  if (next !== null && place) places.set(next, { number: place.number + 1, previous: filters.cursor });
  return (
    <nav class="row end" aria-label="Pages of the list">
      {place && <span class="muted">Page {place.number}</span>}
      {filters.cursor && <a class="button" href={filtersHref(filters)}>First page</a>}
      {filters.cursor && place && <a class="button" rel="prev" href={filtersHref(filters, { cursor: place.previous })}>Previous page</a>}
      {next !== null && <a class="button" rel="next" href={filtersHref(filters, { cursor: next })}>Next page</a>}
    </nav>
  );
}
