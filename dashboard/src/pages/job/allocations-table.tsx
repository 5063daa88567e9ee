// What a batch system was asked for to run a job; nothing without a batch system.
import type { Allocation } from "../../api/types.ts";
import { Badge } from "../../components/badge.tsx";
import { allocationName } from "../../display/allocations.ts";
import { dateTime } from "../../display/format.ts";

export function AllocationsTable({ allocations }: { allocations: readonly Allocation[] }) {
  if (allocations.length === 0) return null;
  const hasStart = allocations.some(({ expected_start_at }) => expected_start_at !== null);
  const headings = ["Attempt", "Allocation", "State", "Nodes", ...(hasStart ? ["Expected start"] : []), "Created", "Ended"];
  return (
    <section class="stack" aria-labelledby="allocations">
      <h2 id="allocations">Allocations</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Table of the allocations">
        <table class="table" aria-labelledby="allocations">
          <thead><tr>{headings.map((heading) => <th key={heading} scope="col">{heading}</th>)}</tr></thead>
          <tbody>
            {allocations.map((allocation) => (
              <tr key={allocation.name}>
                <td>{allocation.attempt}</td>
                <td class="nowrap" title={allocation.name}>{allocationName(allocation)}</td>
                <td class="reason">
                  <Badge state={allocation.state.toLowerCase()} text={allocation.state} />
                  {allocation.reason && <div class="muted break">{allocation.reason}</div>}
                </td>
                <td class="nodes">{allocation.nodes ?? "–"}</td>
                {hasStart && <td class="nowrap">{dateTime(allocation.expected_start_at)}</td>}
                <td class="nowrap">{dateTime(allocation.created_at)}</td>
                <td class="nowrap">{dateTime(allocation.ended_at)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
