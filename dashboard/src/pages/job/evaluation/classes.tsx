// The confusions of classes as a matrix, and the figures of each class.
import { SortableTable, type Column } from "../../../components/sortable-table.tsx";
import { className, shade, type ClassFigures, type OutputReport } from "../../../display/evaluation-report.ts";
import { integer, number, percent } from "../../../display/format.ts";

const MISTAKES = 10;
const CELL = 34;
const SMALL_CELL = 9;
/** From here on the counts do not fit into the cells. */
const MAX_COUNTS = 30;
const MAX_LABEL = 16;
const CHARACTER_PX = 7;

export function Confusion({ output }: { output: OutputReport }) {
  const matrix = output.confusion!;
  const hasCounts = matrix.length <= MAX_COUNTS;
  const cell = hasCounts ? CELL : SMALL_CELL;
  const size = matrix.length * cell;
  const name = (index: number) => className(output, index);
  const longest = Math.max(...matrix.map((_, index) => shorten(name(index)).length));
  const margin = hasCounts ? 14 + longest * CHARACTER_PX : 1;
  return (
    <section>
      <h2>Confusions</h2>
      <p class="muted">Rows are classes, columns what they were predicted as. The darker, the larger the share of the class.</p>
      <div class="row top">
        <div class="matrix" tabIndex={0} role="region" aria-label="Confusion matrix">
          <svg class="confusion" width={margin + size} height={size + margin} role="img" aria-label={`Confusion matrix of ${matrix.length} classes`}>
            {matrix.map((row, target) => (
              <g key={target}>
                {row.map((count, predicted) => {
                  const share = shade(row, predicted);
                  return (
                    <g key={predicted}>
                      <rect
                        class={target === predicted ? "right" : "wrong"}
                        x={margin + predicted * cell}
                        y={target * cell}
                        width={cell - 1}
                        height={cell - 1}
                        fill-opacity={share}
                      >
                        <title>{name(target)} predicted as {name(predicted)}: {integer(count)}, {percent(share)}</title>
                      </rect>
                      {hasCounts && count > 0 && (
                        <text class={share > 0.5 ? "on-dark" : ""} x={margin + (predicted + 0.5) * cell} y={target * cell + 21}>{short(count)}</text>
                      )}
                    </g>
                  );
                })}
                {hasCounts && <text class="class" x={margin - 6} y={target * cell + 21}>{shorten(name(target))}</text>}
                {hasCounts && (
                  <text class="class" transform={`translate(${margin + target * cell + 21} ${size + 6}) rotate(-90)`}>{shorten(name(target))}</text>
                )}
              </g>
            ))}
          </svg>
        </div>
        <Mistakes output={output} />
      </div>
    </section>
  );
}

function Mistakes({ output }: { output: OutputReport }) {
  const mistakes = output.confusions ?? [];
  if (mistakes.length === 0) return null;
  return (
    <table class="table mistakes">
      <caption>The most frequent mistakes</caption>
      <thead><tr><th scope="col">Class</th><th scope="col">Predicted as</th><th scope="col" class="number">Examples</th></tr></thead>
      <tbody>
        {mistakes.slice(0, MISTAKES).map(([target, predicted, count]) => (
          <tr key={`${target} ${predicted}`}>
            <td>{className(output, target)}</td><td>{className(output, predicted)}</td><td class="number">{integer(count)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface Row extends ClassFigures {
  name: string;
  auc: number | null;
}

const COLUMNS: Column<Row>[] = [
  { key: "name", title: "Class", show: (row) => row.name },
  { key: "examples", title: "Examples", isNumber: true, show: (row) => integer(row.examples) },
  { key: "predicted", title: "Predicted", isNumber: true, show: (row) => integer(row.predicted) },
  { key: "precision", title: "Precision", isNumber: true, show: (row) => percent(row.precision) },
  { key: "recall", title: "Recall", isNumber: true, show: (row) => percent(row.recall) },
  { key: "f1", title: "F1", isNumber: true, show: (row) => number(row.f1) },
  { key: "auc", title: "AUC", isNumber: true, show: (row) => number(row.auc) },
];

export function ClassTable({ output }: { output: OutputReport }) {
  const areas = new Map(output.curves?.map((curves) => [curves.class, curves.auc]));
  const rows = output.classes!.map((figures) => (
    { ...figures, name: className(output, figures.class), auc: areas.get(figures.class) ?? null }
  ));
  return <SortableTable title={output.kind === "labels" ? "Labels" : "Classes"} columns={COLUMNS} rows={rows} first="examples" />;
}

function shorten(name: string): string {
  return name.length > MAX_LABEL ? `${name.slice(0, MAX_LABEL - 1)}…` : name;
}

/** A count in at most four characters. */
function short(count: number): string {
  if (count < 10_000) return String(count);
  return count < 1_000_000 ? `${Math.round(count / 1000)}k` : `${Math.round(count / 1_000_000)}M`;
}
