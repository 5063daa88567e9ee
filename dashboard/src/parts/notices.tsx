// The corner where it is told what was just done.
import { useCell } from "../cell.ts";
import { dismiss, notices } from "../notices.ts";

export function Notices() {
  return (
    <div class="notices" role="status" aria-label="Notices">
      {useCell(notices).map((notice) => (
        <p key={notice.id} class={`notice ${notice.kind}`}>
          <span>{notice.text}</span>
          <button type="button" class="button quiet" aria-label="Dismiss" onClick={() => dismiss(notice.id)}>×</button>
        </p>
      ))}
    </div>
  );
}
