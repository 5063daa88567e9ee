// Rows in the order of a column.
/** Sorts by a column, without changing `rows`; empty values come last. */
export function sortedBy<T>(rows: readonly T[], column: keyof T, descending: boolean): T[] {
  return [...rows].sort((one, other) => {
    const [a, b] = [one[column], other[column]];
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
    return descending ? -order : order;
  });
}
