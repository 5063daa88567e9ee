// A table that is sorted by the column whose heading is clicked.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { sortedBy } from "../display/sorted.ts";

const ROWS = 50;

export interface Column<T> {
  key: keyof T & string;
  title: string;
  isNumber?: boolean;
  show: (row: T) => ComponentChildren;
}

export function SortableTable<T>(props: { title: string; columns: Column<T>[]; rows: T[]; first: keyof T & string }) {
  const [sort, setSort] = useState({ column: props.first, descending: true });
  const [isFull, showAll] = useState(false);
  const rows = sortedBy(props.rows, sort.column, sort.descending);
  const click = (column: keyof T & string) =>
    setSort({ column, descending: column === sort.column ? !sort.descending : true });
  return (
    <section>
      <h2>{props.title}</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label={props.title}>
        <table class="table">
          <thead>
            <tr>
              {props.columns.map(({ key, title, isNumber }) => (
                <th
                  key={key}
                  scope="col"
                  class={isNumber ? "number" : ""}
                  aria-sort={sort.column !== key ? "none" : sort.descending ? "descending" : "ascending"}
                >
                  <button type="button" class="sort-button" onClick={() => click(key)}>
                    {title}{sort.column === key && (sort.descending ? " ↓" : " ↑")}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {(isFull ? rows : rows.slice(0, ROWS)).map((row, index) => (
              <tr key={index}>
                {props.columns.map(({ key, isNumber, show }) => <td key={key} class={isNumber ? "number" : ""}>{show(row)}</td>)}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {!isFull && rows.length > ROWS && (
        <button type="button" class="button small" onClick={() => showAll(true)}>Show all {rows.length}</button>
      )}
    </section>
  );
}
