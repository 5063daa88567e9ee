// A point for each job over two columns.
import { go, routeHref } from "../../router.ts";
import { EmptyState } from "../../components/load-state.tsx";
import { qualityColour } from "../../components/parallel-plot.tsx";
import type { Axis } from "../../display/parallel-coordinates.ts";
import type { ComparedColumn } from "./columns.ts";
import { placeOf, qualityOf, scaleOf } from "./scales.ts";
import { rankingOf, type CompareViewProps } from "./view-props.ts";

const [WIDTH_PX, HEIGHT_PX] = [860, 440];
const MARGIN_PX = { top: 14, right: 40, bottom: 46, left: 120 } as const;
const RADIUS_PX = 5;

export function CompareScatter(props: CompareViewProps) {
  const { comparison, columns, selection, onChange } = props;
  const ranking = rankingOf(props);
  const choices = columns.filter(({ differs }) => differs);
  const result = ranking?.column ?? choices.find(({ kind, isNumeric }) => kind === "result" && isNumeric);
  const column = (key: string, usual: ComparedColumn | undefined) => choices.find((choice) => choice.key === key) ?? usual;
  const x = column(selection.scatterX, choices.find((choice) => choice.kind === "spec" && choice.isNumeric && !choice.values.includes(null)) ?? choices[0]);
  const y = column(selection.scatterY, result ?? choices[1]);
  if (!x || !y) return <EmptyState title="No differences">These jobs differ in no column.</EmptyState>;
  const [scaleX, scaleY] = [scaleOf(x), scaleOf(y)];
  const points = comparison.jobs.flatMap(({ job }, index) => {
    const [across, up] = [placeOf(x, scaleX, index), placeOf(y, scaleY, index)];
    if (across === null || up === null) return [];
    const colour = ranking ? qualityColour(qualityOf(ranking.column, ranking.higherIsBetter, index)) : "var(--curve-1)";
    return [{ job, across, up, colour, title: `${job.name}: ${x.title} ${x.texts[index]}, ${y.title} ${y.texts[index]}` }];
  });
  return (
    <>
      <div class="row">
        <Choice label="Across" column={x} choices={choices} onChange={(scatterX) => onChange({ scatterX })} />
        <Choice label="Up" column={y} choices={choices} onChange={(scatterY) => onChange({ scatterY })} />
        <p class="muted">A point is a job; a click opens it.{points.length < comparison.jobs.length && ` ${comparison.jobs.length - points.length} jobs have no such value.`}</p>
      </div>
      <div class="scroll parallel" tabIndex={0} role="region" aria-label="Scatter plot">
        <svg width={WIDTH_PX} height={HEIGHT_PX} role="img" aria-label={`${y.title} over ${x.title} of ${points.length} jobs`}>
          <Ticks axis={scaleX.axis} isX />
          <Ticks axis={scaleY.axis} />
          {points.map(({ job, across, up, colour, title }) => (
            <circle key={job.id} class="point" cx={leftOf(across)} cy={topOf(up)} r={RADIUS_PX} fill={colour} onClick={() => go(routeHref(["jobs", job.id]))}>
              <title>{title}</title>
            </circle>
          ))}
        </svg>
      </div>
    </>
  );
}

function Choice({ label, column, choices, onChange }: { label: string; column: ComparedColumn; choices: readonly ComparedColumn[]; onChange: (key: string) => void }) {
  return (
    <label class="field inline">
      <span>{label}</span>
      <select value={column.key} onChange={(event) => onChange(event.currentTarget.value)}>
        {choices.map(({ key, title }) => <option key={key} value={key}>{title}</option>)}
      </select>
    </label>
  );
}

function Ticks({ axis, isX = false }: { axis: Axis; isX?: boolean }) {
  const [bottom, left] = [topOf(0), leftOf(0)];
  return (
    <g>
      {isX ? <line class="axis" x1={left} x2={leftOf(1)} y1={bottom + 8} y2={bottom + 8} /> : <line class="axis" x1={left - 8} x2={left - 8} y1={bottom} y2={topOf(1)} />}
      {axis.ticks.map(({ at, text }) => (isX
        ? <text key={text} x={leftOf(at)} y={bottom + 24} text-anchor="middle">{text}</text>
        : <text key={text} x={left - 14} y={topOf(at)} dy="0.35em" text-anchor="end">{text.slice(0, 16)}</text>))}
      {isX && <text class="label" x={WIDTH_PX / 2} y={HEIGHT_PX - 6} text-anchor="middle">{axis.label}</text>}
    </g>
  );
}

function leftOf(across: number): number {
  return MARGIN_PX.left + across * (WIDTH_PX - MARGIN_PX.left - MARGIN_PX.right);
}

function topOf(up: number): number {
  return HEIGHT_PX - MARGIN_PX.bottom - up * (HEIGHT_PX - MARGIN_PX.top - MARGIN_PX.bottom);
}
