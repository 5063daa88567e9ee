// The compared jobs as parallel coordinates: an axis for each chosen column, the one of the best job last.
import { useMemo } from "preact/hooks";
import { go, routeHref } from "../../router.ts";
import { EmptyState } from "../../components/load-state.tsx";
import { Menu } from "../../components/menu.tsx";
import { ParallelPlot } from "../../components/parallel-plot.tsx";
import { placeOf, qualityOf, scaleOf } from "./scales.ts";
import { rankingOf, type CompareViewProps } from "./view-props.ts";

const USUAL_AXES = 6;

export function CompareCoordinates(props: CompareViewProps) {
  const { comparison, columns, selection, onChange } = props;
  const ranking = rankingOf(props);
  const last = ranking?.column ?? columns.find(({ kind, isNumeric, differs }) => kind === "result" && isNumeric && differs);
  const usual = columns.filter(({ kind, differs }) => kind === "spec" && differs).slice(0, USUAL_AXES).map(({ key }) => key);
  const keys = selection.axes.length > 0 ? selection.axes : usual;
  const axes = [...columns.filter((column) => keys.includes(column.key) && column !== last), ...(last ? [last] : [])];
  const key = axes.map((axis) => axis.key).join(" ");
  const plot = useMemo(() => {
    const scales = axes.map(scaleOf);
    const runs = comparison.jobs.flatMap(({ job }, index) => {
      const heights = axes.map((axis, at) => placeOf(axis, scales[at]!, index));
      const known = heights.slice(0, heights.indexOf(null) < 0 ? undefined : heights.indexOf(null)) as number[];
      if (known.length < 2) return [];
      const quality = ranking && qualityOf(ranking.column, ranking.higherIsBetter, index);
      const title = `${job.name}: ${axes.map((axis) => `${axis.title} ${axis.texts[index]}`).join(", ")}`;
      return [{ key: job.id, title, heights: known, quality, isBest: ranking?.order[0] === index, onOpen: () => go(routeHref(["jobs", job.id])) }];
    });
    return { axes: scales.map(({ axis }) => axis), runs: runs.sort((a, b) => (a.quality ?? -1) - (b.quality ?? -1)) };
  }, [comparison, columns, key, ranking?.column.key, ranking?.higherIsBetter]);
  const toggle = (column: string) => onChange({ axes: keys.includes(column) ? keys.filter((other) => other !== column) : [...keys, column] });
  return (
    <>
      <div class="row">
        <Menu label="Axes">
          {columns.filter(({ differs }) => differs).map((column) => (
            <label key={column.key} class="menu-check">
              <input type="checkbox" checked={keys.includes(column.key)} onChange={() => toggle(column.key)} />{column.title}
            </label>
          ))}
        </Menu>
        <p class="muted">A line is a job; a click opens it. {ranking ? "Its colour goes from orange, the worst, to blue, the best." : "Select what the best job is by, and the lines are coloured."}</p>
      </div>
      {axes.length < 2 ? <EmptyState title="Too few axes">Select at least two columns in which the jobs differ.</EmptyState> : <ParallelPlot {...plot} label="Jobs over the columns" />}
    </>
  );
}
