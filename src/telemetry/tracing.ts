import type { Attributes, Context, Span, Tracer } from '@opentelemetry/api'
import { asError } from '../base/thrown.ts'
import type {
  Carried,
  EnqueueCall,
  Instrumentation,
  RunCall,
  RunEnd,
  StepCall,
} from '../engine/events/instrumentation.ts'
import type { StepEnd } from '../engine/define/flow-entry.ts'
import { api } from './api.ts'
import { errorType, SYSTEM } from './attributes.ts'

const { context, propagation, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } = api

/**
 * Creates spans around enqueues, runs and the code of steps. Names and attributes follow OpenTelemetry's semantic conventions for
 * messaging. The program's propagator writes the context that travels with the job.
 *
 * @param isChild true: a run joins the trace of its enqueue. false: it has its own trace. Either way the run links to
 * its enqueue.
 */
export function tracing(tracer: Tracer, isChild: boolean): Instrumentation {
  return {
    enqueue: (call, store) =>
      tracer.startActiveSpan(
        `send ${call.queue}`,
        { kind: SpanKind.PRODUCER, attributes: sendAttributes(call) },
        (span) => sending(span, store),
      ),
    run: (call, work) => {
      const origin = propagation.extract(ROOT_CONTEXT, call.carried)
      const enqueued = trace.getSpanContext(origin)
      const parent: Context = isChild ? origin : ROOT_CONTEXT
      const span = tracer.startSpan(
        `process ${call.queue}`,
        {
          kind: SpanKind.CONSUMER,
          attributes: processAttributes(call),
          ...(enqueued && { links: [{ context: enqueued }] }),
        },
        parent,
      )
      return context.with(trace.setSpan(parent, span), () => processing(span, work))
    },
    step: (call, work) => {
      const started = trace.getSpanContext(propagation.extract(ROOT_CONTEXT, call.carried))
      const options = { attributes: stepAttributes(call), ...(started && { links: [{ context: started }] }) }
      return tracer.startActiveSpan(`step ${call.step}`, options, (span) => stepping(span, work))
    },
  }
}

async function sending<T extends { readonly id: string }>(
  span: Span,
  store: (carried: Carried) => Promise<T[]>,
): Promise<T[]> {
  const carried: Record<string, string> = {}
  propagation.inject(context.active(), carried)
  try {
    const jobs = await store(carried)
    const [job] = jobs
    if (job && jobs.length === 1) span.setAttribute('messaging.message.id', job.id)
    return jobs
  } catch (error) {
    fail(span, error)
    throw error
  } finally {
    span.end()
  }
}

async function processing(span: Span, work: () => Promise<RunEnd>): Promise<RunEnd> {
  const end = await work()
  if (end.kind === 'threw') fail(span, end.error)
  else if (end.kind === 'ended') span.setAttribute('sluice.job.ended_by', end.by)
  span.end()
  return end
}

async function stepping(span: Span, work: () => Promise<StepEnd>): Promise<StepEnd> {
  const end = await work()
  if (!end.ok) fail(span, end.error)
  span.end()
  return end
}

function fail(span: Span, thrown: unknown): void {
  const error = asError(thrown)
  span.recordException(error)
  span.setAttribute('error.type', errorType(error))
  span.setStatus({ code: SpanStatusCode.ERROR, message: error.message })
}

function sendAttributes({ task, queue, count }: EnqueueCall): Attributes {
  return {
    ...SYSTEM,
    'messaging.operation.type': 'send',
    'messaging.operation.name': 'send',
    'messaging.destination.name': queue,
    'sluice.task': task,
    ...(count > 1 && { 'messaging.batch.message_count': count }),
  }
}

function stepAttributes({ flow, workflow, step, attempt }: StepCall): Attributes {
  return {
    ...SYSTEM,
    'sluice.task': workflow,
    'sluice.flow.id': flow,
    'sluice.flow.step': step,
    'sluice.job.attempt': attempt,
  }
}

function processAttributes({ id, task, queue, attempt }: RunCall): Attributes {
  return {
    ...SYSTEM,
    'messaging.operation.type': 'process',
    'messaging.operation.name': 'process',
    'messaging.destination.name': queue,
    'messaging.message.id': id,
    'sluice.task': task,
    'sluice.job.attempt': attempt,
  }
}
