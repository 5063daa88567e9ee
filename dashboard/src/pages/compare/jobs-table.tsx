// The table of many jobs: a row for each, the results first, and the columns that differ. A heading orders the rows.
import { useState } from "preact/hooks";
import { routeHref } from "../../router.ts";
import type { ComparedColumn } from "./columns.ts";
import { rankingOf, type CompareViewProps } from "./view-props.ts";

export function JobsTable(props: CompareViewProps) {
  const { comparison, columns, selection, onChange } = props;
  const [showsEqual, setShowsEqual] = useState(false);
  const ranking = rankingOf(props);
  const equal = columns.filter(({ differs }) => !differs);
  const [results, specs] = (["result", "spec"] as const).map((kind) => columns.filter((column) => column.kind === kind && (showsEqual || column.differs)));
  const shown = [...results!, ...specs!];
  const count = new Map<string, number>();
  for (const { job } of comparison.jobs) count.set(job.name, (count.get(job.name) ?? 0) + 1);
  const order = ranking?.order ?? comparison.jobs.map((_, job) => job);
  const sortBy = (key: string) =>
    onChange(key === ranking?.column.key ? { order: ranking.higherIsBetter ? "lowest" : "highest" } : { best: key, order: "" });
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label="Table of jobs">
        <table class="table" aria-label="Jobs compared">
          <thead>
            <tr>
              <th scope="col">Job</th>
              {shown.map((column) => <Heading key={column.key} column={column} ranking={ranking} onSort={sortBy} />)}
            </tr>
          </thead>
          <tbody>
            {order.map((job, row) => {
              const { id, name } = comparison.jobs[job]!.job;
              return (
                <tr key={id}>
                  <th scope="row">
                    <a href={routeHref(["jobs", id])}>{name}</a>
                    {count.get(name)! > 1 && <span class="muted"> {id.slice(0, 6)}</span>}
                    {id === selection.baseline && <span class="muted"> baseline</span>}
                    {ranking && row === 0 && <span class="good"> best</span>}
                  </th>
                  {shown.map(({ key, texts, isNumeric }) => <td key={key} class={isNumeric ? "number" : "cut"} title={isNumeric ? undefined : texts[job]}>{texts[job]}</td>)}
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {equal.length > 0 && (
        <button type="button" class="button small" aria-expanded={showsEqual} onClick={() => setShowsEqual(!showsEqual)}>
          {showsEqual ? "Hide" : "Show"} {equal.length} equal {equal.length === 1 ? "column" : "columns"}
        </button>
      )}
    </>
  );
}

function Heading({ column, ranking, onSort }: { column: ComparedColumn; ranking: ReturnType<typeof rankingOf>; onSort: (key: string) => void }) {
  if (!column.isNumeric) return <th scope="col">{column.title}</th>;
  const isSorted = ranking?.column.key === column.key;
  return (
    <th scope="col" class="number" aria-sort={isSorted ? (ranking.higherIsBetter ? "descending" : "ascending") : undefined}>
      <button type="button" class="sort-button" onClick={() => onSort(column.key)}>{column.title}{isSorted && (ranking.higherIsBetter ? " ▼" : " ▲")}</button>
    </th>
  );
}
