// The drawn points of a plot as CSV.
import type { Curve } from "../curves.ts";
import type { StepRange } from "../skip-markers.ts";

/** A row for each x in the range at which some curve has a point, with all digits. */
export function plotCsv(xTitle: string, x: readonly number[], curves: readonly Curve[], range: StepRange): string {
  const columns = curves.flatMap((curve) => columnsOf(curve));
  const rows = [[xTitle, ...columns.map(({ title }) => title)].map(quoted)];
  for (const [index, at] of x.entries()) {
    const cells = columns.map(({ cell }) => cell(index));
    if (at >= range[0] && at <= range[1] && cells.some((cell) => cell !== "")) rows.push([String(at), ...cells]);
  }
  return `${rows.map((row) => row.join(",")).join("\r\n")}\r\n`;
}

function columnsOf({ name, mean, low, high, raw, nonFinite }: Curve): { title: string; cell: (index: number) => string }[] {
  const values = (title: string, row: Curve["low"] | undefined) => (row ? [{ title, cell: (index: number) => String(row[index] ?? "") }] : []);
  return [
    { title: name, cell: (index) => String(mean[index] ?? nonFinite.get(index) ?? "") },
    ...values(`${name} raw`, raw),
    ...values(`${name} min`, low),
    ...values(`${name} max`, high),
  ];
}

function quoted(text: string): string {
  // A spreadsheet would run a name that begins like a formula.
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
