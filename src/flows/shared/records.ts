import type { StepRecord } from '../../jobs/flow-memory.ts'
import type { StepWait } from '../../engine/define/flow-entry.ts'
import type { JobError } from '../../jobs/job-error.ts'
import type { GrantedJob } from '../../jobs/job.ts'
import type { FlowMove } from '../../jobs/workflow.ts'

/** The result of a step as JSON text, back as a value; null stands for undefined. */
export function valueOf(text: string | null): unknown {
  return text === null ? undefined : (JSON.parse(text) as unknown)
}

/** A record with what is not given left empty. */
export function recordOf(given: Partial<StepRecord> & Pick<StepRecord, 'name' | 'state'>): StepRecord {
  return {
    result: null,
    error: null,
    attempt: 0,
    startedUs: null,
    finishedUs: null,
    waitedUs: 0,
    waitedFor: null,
    dueUs: null,
    input: null,
    ...given,
  }
}

/** When and how the granted step of a job began. */
export function startOf(job: GrantedJob): Pick<StepRecord, 'attempt' | 'startedUs' | 'waitedUs' | 'waitedFor'> {
  const { attempt, startedUs, availableUs, waitedFor } = job
  return { attempt, startedUs, waitedUs: Math.max(0, startedUs - availableUs), waitedFor }
}

/** How long the granted step of a job waited, in ms. */
export function waitOf({ availableUs, startedUs, waitedFor }: GrantedJob): StepWait {
  return { waitedMs: Math.max(0, startedUs - availableUs) / 1000, waitedFor }
}

/** A move of which only the given parts do something. */
export function moveOf(given: Partial<FlowMove> & Pick<FlowMove, 'then'>): FlowMove {
  return {
    steps: [],
    consumed: [],
    spawn: [],
    children: [],
    drop: [],
    state: null,
    again: null,
    keepPermits: false,
    ...given,
  }
}

/** The end of a flow: completed, or failed by an error. */
export function endOf(result: string | null, error: JobError | null): FlowMove['then'] {
  return { kind: 'end', result, error }
}
