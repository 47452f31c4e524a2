import type { FlowChild } from '../../store/contract/workflows.ts'
import type { FlowStepView, FlowView } from './flow-views.ts'
import type { JobExplanation } from './job-explanation.ts'

/** Steps of one kind that are told one by one; of the others only their number. */
const TOLD_AT_MOST = 10

/** The facts of a flow that its words tell. */
export interface FlowFacts {
  readonly flow: FlowView
  /** Those that run or wait. */
  readonly open: readonly FlowStepView[]
  /** Of the flow's own job, while that waits for no step; null: it is in a step, runs or is parked. */
  readonly entry: JobExplanation | null
  /** The flow's own code runs, outside a step that waits. */
  readonly isEntered: boolean
  /** The words about children that it waits for. */
  readonly children: ReadonlyMap<FlowChild['id'], string>
}

/** Tells what a flow waits for, and when it goes on. */
export function flowInWords({ flow, open, entry, isEntered, children }: FlowFacts): string {
  const at = flow.finishedAt?.toISOString() ?? 'an unknown time'
  if (flow.state === 'completed') return `The flow completed at ${at}.`
  if (flow.state === 'cancelled') return `The flow was cancelled at ${at}.`
  if (flow.state === 'failed')
    return `The flow failed at ${at}${flow.error ? `: ${flow.error.code}: ${flow.error.message}` : '.'}`
  const sentences = open.slice(0, TOLD_AT_MOST).map((step) => stepInWords(step, children))
  if (open.length > TOLD_AT_MOST) sentences.push(`${open.length - TOLD_AT_MOST} more steps run or wait.`)
  if (entry) sentences.push(waitInWords('The flow', entry))
  else if (sentences.length === 0)
    sentences.push(isEntered ? 'The code of the flow runs.' : 'The flow waits for what it has begun.')
  return sentences.join(' ')
}

function stepInWords(step: FlowStepView, children: ReadonlyMap<string, string>): string {
  const { name, state, attempt, until, signals, child, left, wait } = step
  const subject = name === '~hold' ? 'The gate of the flow' : `The step ${name}`
  const end = until === null ? '' : `, until ${until.toISOString()}`
  const items = left === undefined ? '' : ` ${left} of its items have yet to end.`
  if (state === 'running') return `${subject} runs${attempt > 1 ? `, attempt ${attempt}` : ''}.${items}`
  if (state === 'sleeping') return `${subject} sleeps${end === '' ? '' : ` until ${until?.toISOString()}`}.`
  if (child)
    return `${subject} waits for its child ${child.id} of ${child.workflow}. ${children.get(child.id) ?? `The child is ${child.state}.`}`
  if (state === 'awaiting') {
    const names = signals ?? []
    if (names.length === 0) return `${subject} waits for its children${end}.`
    return `${subject} waits for the signal ${names.join(' or ')}${end}.`
  }
  return `${wait ? waitInWords(subject, wait) : `${subject} waits.`}${items}`
}

/** The explanation of a job, about the step or the flow that the job is for. */
function waitInWords(subject: string, { words, job, expectedStart }: JobExplanation): string {
  // A first start that is delayed, and a sleep, are kept as retries are.
  if (job.state === 'retryable' && job.error === null)
    return `${subject} goes on at ${expectedStart?.toISOString() ?? 'a later time'}.`
  return words.replace(/^The job /, `${subject} `)
}
