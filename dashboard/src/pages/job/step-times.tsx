// Where the time of the training went, below the plots: a stacked bar for each interval of steps.
import type { EventPage } from "../../api/types.ts";
import { usePoll } from "../../api/use-poll.ts";
import { duration, percent } from "../../display/format.ts";
import { intervalsOf, PARTS, totals, type Interval } from "../../display/step-times.ts";
import type { StepRange } from "../../plots/skip-markers.ts";
import { queryString } from "../../router.ts";
import type { TabProps } from "./tab-props.ts";

/** A training of any length has fewer: each interval is a twentieth of the time before it. */
const TIMES = queryString({ type: "step_times", before: 2 ** 53, limit: 1000 });
const HEIGHT = 100;

type Props = Pick<TabProps, "job" | "intervalMs" | "pulse"> & { range: StepRange };

export function StepTimes({ job, intervalMs, pulse, range }: Props) {
  const events = usePoll<EventPage>(`/jobs/${encodeURIComponent(job.id)}/events?${TIMES}`, intervalMs, pulse);
  const all = intervalsOf(events.data?.items ?? []);
  const shown = all.filter(({ from, to }) => to >= range[0] && from <= range[1]);
  if (shown.length === 0) return null;
  const parts = totals(shown);
  const sum = parts.reduce((seconds, [, value]) => seconds + value, 0);
  return (
    <section class="step-times" aria-label="Where the time goes">
      <h2>Where the time goes</h2>
      <svg viewBox={`${range[0]} 0 ${Math.max(range[1] + 1 - range[0], 1)} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label="Share of each part over the steps">
        {shown.map((interval) => <Bar key={interval.from} interval={interval} />)}
      </svg>
      <ul class="step-time-parts">
        {parts.map(([part, seconds]) => (
          <li key={part}>
            <span class={`step-time-key part-${part}`} /> {part} <strong>{percent(seconds / sum)}</strong> <span class="muted">{duration(seconds)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Bar({ interval: { from, to, wallS, shares } }: { interval: Interval }) {
  let y = 0;
  return (
    <g>
      <title>{`steps ${from} to ${to - 1}, ${duration(wallS)}: ${PARTS.filter((part) => shares[part] > 0).map((part) => `${part} ${percent(shares[part])}`).join(", ")}`}</title>
      {PARTS.map((part) => {
        const height = HEIGHT * shares[part];
        y += height;
        return <rect key={part} class={`part-${part}`} x={from} y={HEIGHT - y} width={to - from} height={height} />;
      })}
    </g>
  );
}
