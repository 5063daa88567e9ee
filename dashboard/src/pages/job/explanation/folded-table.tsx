// A table that shows its first rows, or those around a marked row, and the others on request.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { foldedStart } from "../../../display/explanations.ts";

const SHOWN = 6;

interface Props<T> {
  title: string;
  heads: readonly string[];
  rows: readonly T[];
  /** Rows that the server does not list. */
  leftOut: number;
  cells: (row: T) => readonly ComponentChildren[];
}

export function FoldedTable<T extends object>({ title, heads, rows, leftOut, cells }: Props<T>) {
  const [all, setAll] = useState(false);
  if (rows.length === 0) return null;
  const start = all ? 0 : foldedStart(rows as readonly { is_first?: boolean }[], SHOWN);
  const shown = all ? rows : rows.slice(start, start + SHOWN);
  const hidden = rows.length - shown.length;
  return (
    <section>
      <h3>{title}</h3>
      <div class="scroll">
        <table class="table" aria-label={title}>
          <thead><tr>{heads.map((head) => <th key={head} scope="col">{head}</th>)}</tr></thead>
          <tbody>
            {shown.map((row, index) => (
              <tr key={start + index} class={(row as { is_first?: boolean }).is_first ? "marked" : ""}>
                {cells(row).map((cell, column) => <td key={heads[column]}>{cell}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {hidden > 0 && <button type="button" class="button small" onClick={() => setAll(true)}>Show all {rows.length}</button>}
      {all && leftOut > 0 && <p class="muted">{leftOut} more are not listed.</p>}
    </section>
  );
}
