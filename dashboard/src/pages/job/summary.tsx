// The summary of a job: its most important numbers.
import type { Job } from "../../api/types.ts";
import { bytes, duration, MISSING, number, percent, lossScale, scaleHealth, integer } from "../../display/format.ts";
import { metricTitle, metricValue } from "../../display/metrics.ts";

export function JobSummary({ job }: { job: Job }) {
  const sum = job.summary ?? {};
  const lost = (sum.skipped_s ?? 0) + (sum.repeated_s ?? 0);
  const figures: [string, string, string?][] = [
    ["Step", integer(job.step), stepNote(job)],
    ["Loss", number(job.latest?.loss), sum.best_loss == null ? "" : `of the last step; smallest ${number(sum.best_loss)}`],
    lossScaleFigure(job),
    ["Skipped steps", integer(sum.skipped), sum.skipped_share == null ? "" : percent(sum.skipped_share)],
    ["Examples/s", number(sum.median_examples_per_s, 3), "median"],
    ["Training time", duration(sum.steps_s), lost > 0 ? `${duration(lost)} on skipped and repeated steps` : ""],
    ...metricFigures(job),
    ...bestFigure(job),
    ["Peak memory", bytes(sum.peak_memory_bytes)],
    // Attempts after a pause do not count against the limit.
    ["Attempt", job.attempt > job.max_attempts ? integer(job.attempt) : `${job.attempt} of ${job.max_attempts}`],
    ["Engine", sum.engine ?? MISSING],
  ];
  const known = figures.filter(([, value]) => value !== MISSING);
  return (
    <dl class="facts" aria-label="Summary">
      {known.map(([name, value, more]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value} {more && <small>{more}</small>}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A scale of 1 that does not change is none. */
function lossScaleFigure({ latest, summary }: Job): [string, string, string] {
  const scale = latest?.loss_scale;
  if (scale === 1 && summary?.scale_health === "fixed") return ["Loss scale", "none", ""];
  return ["Loss scale", lossScale(scale), scaleHealth(summary?.scale_health)];
}

function stepNote({ total_steps, summary }: Job): string {
  const of = total_steps ? `of ${integer(total_steps)}` : "";
  return summary?.stopped_early ? `${of}, stopped early` : of;
}

/** The best evaluation, if the spec asks for one. */
function bestFigure({ summary }: Job): [string, string, string][] {
  const best = summary?.best;
  return best ? [["Best", metricValue(best.metric, best.value), `${metricTitle(best.metric).toLowerCase()}, epoch ${best.epoch}`]] : [];
}

const MAX_METRICS = 6;

/** The metrics of the last evaluation; of many only the first. */
function metricFigures({ metrics }: Job): [string, string][] {
  return Object.entries(metrics ?? {}).slice(0, MAX_METRICS).map(([name, value]) => [metricTitle(name), metricValue(name, value)]);
}
