import type { ReactElement } from 'react'
import type { JobRow } from '../api/types.ts'
import { Badge, CountDown } from './parts.tsx'

/** What a job is about, in one line: why it waits or failed, else its payload. */
export function JobLine({ job }: { readonly job: JobRow }): ReactElement {
  return (
    <span className="flex items-center gap-2">
      {job.throttledUntil !== null && job.state === 'available' && (
        <Badge tone="warn">
          budget <CountDown at={job.throttledUntil} />
        </Badge>
      )}
      {job.tags.slice(0, 3).map((tag) => (
        <Badge key={tag}>{tag}</Badge>
      ))}
      {job.error !== null && job.state !== 'completed' ? (
        <span className="truncate text-bad" title={job.error.message}>
          {job.error.message}
        </span>
      ) : (
        <span className="truncate font-mono text-xs text-soft" title={job.preview}>
          {job.preview}
        </span>
      )}
    </span>
  )
}
