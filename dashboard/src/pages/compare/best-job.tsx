// The best job by a column that a person chooses; it orders the table and colours the lines, too.
import { routeHref } from "../../router.ts";
import { rankingOf, type CompareViewProps } from "./view-props.ts";

export function BestJob(props: CompareViewProps) {
  const { comparison, columns, onChange } = props;
  const choices = columns.filter(({ isNumeric, kind }) => isNumeric && kind === "result");
  const ranking = rankingOf(props);
  const first = ranking && ranking.column.values[ranking.order[0]!] != null ? ranking.order[0]! : null;
  return (
    <div class="row" role="group" aria-label="Best job">
      <label class="field inline">
        <span>Best by</span>
        <select value={ranking?.column.key ?? ""} onChange={(event) => onChange({ best: event.currentTarget.value, order: "" })}>
          <option value="">Select…</option>
          {choices.map(({ key, title }) => <option key={key} value={key}>{title}</option>)}
        </select>
      </label>
      {ranking && (
        <label class="field inline">
          <span>Best is the</span>
          <select value={ranking.higherIsBetter ? "highest" : "lowest"} onChange={(event) => onChange({ order: event.currentTarget.value as "lowest" })}>
            <option value="lowest">lowest</option>
            <option value="highest">highest</option>
          </select>
        </label>
      )}
      {ranking && first !== null && (
        <p role="status">
          <a href={routeHref(["jobs", comparison.jobs[first]!.job.id])}>{comparison.jobs[first]!.job.name}</a> is the best with{" "}
          {ranking.column.title} <strong>{ranking.column.texts[first]}</strong>.
        </p>
      )}
    </div>
  );
}
