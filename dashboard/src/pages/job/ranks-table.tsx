// The ranks of an attempt: where each runs, and how long it takes for a step.
import type { Attempt, Event } from "../../api/types.ts";
import { Badge } from "../../components/badge.tsx";
import { percent } from "../../display/format.ts";
import { shortTime } from "../../display/profile.ts";

/** The data of an event of type `ranks`. */
interface RankTimes {
  sentence: string;
  slow_ranks: number[];
  ranks: { rank: number; step_time_s: number; own_time_s: number; communication_share: number }[];
}

const NUMBERS = ["Step", "Computes", "Communicates"];
const HEADINGS = ["Rank", "State", ...NUMBERS, "Worker", "Device"];

/** `event` is the last one of the attempt with the times of its ranks, if there is one. */
export function RanksTable({ attempt, event }: { attempt: Attempt; event: Event | undefined }) {
  const times = event?.data as unknown as RankTimes | undefined;
  return (
    <>
      {times && <p class="muted ranks">{times.sentence}</p>}
      <table class="table" aria-label={`Ranks of attempt ${attempt.attempt}`}>
        <thead>
          <tr>{HEADINGS.map((heading) => <th key={heading} scope="col" class={NUMBERS.includes(heading) ? "number" : ""}>{heading}</th>)}</tr>
        </thead>
        <tbody>
          {attempt.ranks.map(({ rank, state, worker_id, device }) => {
            const own = times?.ranks.find((one) => one.rank === rank);
            return (
              <tr key={rank}>
                <td>{rank}</td>
                <td><Badge state={state} />{times?.slow_ranks.includes(rank) && <> <Badge state="slow" /></>}</td>
                <td class="number">{own ? shortTime(own.step_time_s) : "–"}</td>
                <td class="number">{own ? shortTime(own.own_time_s) : "–"}</td>
                <td class="number">{percent(own?.communication_share)}</td>
                <td>{worker_id}</td>
                <td class="break">{device ?? "–"}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </>
  );
}
