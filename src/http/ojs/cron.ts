import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'
import { fromJsonText } from '../../base/json-value.ts'
import type { NewJob } from '../../jobs/job.ts'
import type { ScheduleRecord } from '../../jobs/schedule.ts'
import { type Call, ok, operation, type Operation } from '../operation.ts'
import { invalid, notFound, unprocessable } from '../refusal.ts'
import { isOwn, ownName, splitName } from '../tenant.ts'
import { extraOf } from './job-json.ts'
import { requireQueues } from './jobs.ts'
import type { OjsExtra } from './new-job.ts'
import { pageOf } from './pages.ts'
import { readyJobs } from './ready-jobs.ts'
import { type JobJson, JobType, NewJobJson, Options, PageQuery, requireInOptions } from './schemas.ts'

const Name = z
  .string()
  .min(1)
  .max(120)
  .regex(
    /^[A-Za-z0-9][A-Za-z0-9._:-]*$/,
    'Invalid input: expected letters, digits, dots, colons, hyphens and underscores',
  )
const Overlap = z.enum(['skip', 'allow', 'cancel_previous', 'enqueue'])
const Body = z
  .looseObject({
    name: Name,
    expression: z.string().max(255).optional(),
    cron: z.string().max(255).optional(),
    timezone: z.string().max(64).optional(),
    overlap_policy: Overlap.default('skip'),
    enabled: z.boolean().nullish(),
    job_template: NewJobJson.optional(),
    type: JobType.optional(),
    args: z.array(z.unknown()).optional(),
    meta: z.record(z.string(), z.unknown()).nullish(),
    options: Options.nullish(),
  })
  .check((ctx) => requireInOptions(ctx, (ctx.value.job_template ?? ctx.value).options))
  .check(requireInTemplate)
  .check(refuseShortNames)

/** A page has two lists of the same schedules, and each shows its arguments twice. */
const SHOWN_TIMES = 4

/** Registers a schedule, or changes it. */
export const registerCron: Operation = operation({
  method: 'POST',
  path: '/ojs/v1/cron',
  name: 'registerCron',
  summary: 'Register a schedule, or change it.',
  body: Body,
  answers: { 201: 'The schedule is registered.' },
  async run(call) {
    const { body, server, tenant } = call
    const { clock, sluice, remote } = server
    const { expression, overlap } = gridOf(body)
    if (body.enabled === false)
      throw unprocessable(
        'enabled is invalid: false. Expected true, since a registered schedule is active. Delete the schedule to stop it.',
      )
    const template = templateOf(body)
    const { jobs, limits } = await readyJobs(call, [template])
    const job = jobs[0] as NewJob
    if (job.runAtMs !== null || job.expiresAtMs !== null || job.unique || job.terms?.pending)
      throw unprocessable(
        'job_template is invalid. Expected no times, unique or pending, since an occurrence starts when it is due.',
      )
    const name = ownName(tenant, body.name)
    const known = await scheduleNamed(call, name)
    if (known) requireQueues(call, [splitName(known.job.queue).name])
    else await server.names.admit('schedules', tenant, [name])
    const createdMs = (known && extraOf(known.job).cron?.createdMs) ?? clock.now()
    const extra: OjsExtra = { ...extraOf(job), cron: { createdMs, expression, overlap } }
    if (limits.length > 0) await remote.define(limits)
    const { kind, schedule } = await sluice.schedules.register(
      {
        name,
        cron: expression,
        ...(body.timezone !== undefined && { timezone: body.timezone }),
        overlap: overlap === 'skip' ? 'skip' : 'allow',
      },
      { ...job, extra: JSON.stringify(extra) },
    )
    const shown = cronJson(schedule)
    const unchanged = kind === 'unchanged' && limits.length === 0
    return { status: 201, body: { cron: shown, cron_job: shown }, ...(unchanged && { unchanged }) }
  },
})

/** Lists schedules. */
export const listCron: Operation = operation({
  method: 'GET',
  path: '/ojs/v1/cron',
  name: 'listCron',
  summary: 'List schedules.',
  query: PageQuery,
  answers: { 200: 'The schedules of the tenant.' },
  async run({ server, tenant, access, query }) {
    const all = (await (await server.remote.store()).schedules()).filter(
      (each) => isOwn(tenant, each.name) && access.mayName(splitName(each.job.queue).name),
    )
    const { items: records, pagination } = pageOf(all, query)
    requireFitting(records, server.bounds.answerBytes)
    const items = records.map(cronJson)
    return ok({ crons: items, cron_jobs: items, pagination })
  },
})

/** Deletes a schedule. */
export const deleteCron: Operation = operation({
  method: 'DELETE',
  path: '/ojs/v1/cron/:name',
  name: 'deleteCron',
  summary: 'Delete a schedule. Its jobs that wait or run continue.',
  params: z.object({ name: Name }),
  answers: { 200: 'The schedule is deleted.' },
  async run(call: Call<{ name: string }, unknown, unknown>) {
    const { name } = call.params
    const known = await scheduleNamed(call, ownName(call.tenant, name))
    if (!known || !call.access.mayName(splitName(known.job.queue).name)) throw notFound('cron', name)
    if (!(await call.server.sluice.schedules.remove(ownName(call.tenant, name)))) throw notFound('cron', name)
    return ok({ cron: { name }, deleted: true, name })
  },
})

/** Checks that a page of schedules fits into an answer; one alone always does. @throws {Refusal} 422 */
function requireFitting(page: readonly ScheduleRecord[], bytes: number): void {
  let used = 0
  for (const [at, { job }] of page.entries()) {
    used += SHOWN_TIMES * (Buffer.byteLength(job.input) + Buffer.byteLength(job.extra ?? ''))
    if (used > bytes && at > 0)
      throw unprocessable(
        `per_page is invalid: ${page.length}. The schedules of this page have more than ${bytes} bytes. Expected a smaller one, such as ${at}.`,
      )
  }
}

async function scheduleNamed(
  { server }: Call<unknown, unknown, unknown>,
  name: string,
): Promise<ScheduleRecord | undefined> {
  return (await (await server.remote.store()).schedules()).find((each) => each.name === name)
}

function gridOf({ expression, cron, overlap_policy: overlap }: z.output<typeof Body>): {
  expression: string
  overlap: z.output<typeof Overlap>
} {
  const text = expression ?? cron
  if (text === undefined)
    throw invalid('expression is missing. Expected a cron expression of 5 fields, or a nickname such as @daily.')
  if (overlap === 'cancel_previous')
    throw unprocessable('overlap_policy is invalid: cancel_previous. Expected skip, allow or enqueue.')
  return { expression: text, overlap }
}

/** Refuses what stands beside `job_template` and would be dropped, unless the template says the same. */
function requireInTemplate({
  value: body,
  issues,
}: z.core.ParsePayload<Record<string, unknown> & { job_template?: JobJson | undefined }>): void {
  const { job_template: template } = body
  if (!template) return
  for (const name of ['type', 'args', 'meta', 'options'] as const) {
    const beside = body[name] ?? null
    if (beside === null || isDeepStrictEqual(beside, template[name])) continue
    const message = `is not read beside job_template. Expected job_template.${name}.`
    issues.push({ code: 'custom', input: body, path: [name], message })
  }
}

/** Members that other schedulers have under these names would be dropped. */
function refuseShortNames({ value: body, issues }: z.core.ParsePayload<Record<string, unknown>>): void {
  if (!Object.hasOwn(body, 'overlap')) return
  const message = 'is unknown; did you mean overlap_policy? Expected skip, allow or enqueue there.'
  issues.push({ code: 'custom', input: body, path: ['overlap'], message })
}

function templateOf({
  job_template: template,
  type,
  args,
  meta,
  options,
}: z.output<typeof Body>): z.output<typeof NewJobJson> {
  if (template) {
    if (template.id !== undefined)
      throw invalid('job_template is invalid: it has an id. Omit id, since each job gets its own.')
    return template
  }
  if (type === undefined) throw invalid('type is missing. Expected the type of the jobs, or a job_template.')
  return { type, args: args ?? [], meta, options }
}

function cronJson(record: ScheduleRecord): Record<string, unknown> {
  const { name, recurrence, job, nextDueMs, lastDueMs, lastJob, runs } = record
  const { cron, meta, ojs } = extraOf(job)
  const expression = cron?.expression ?? (recurrence.kind === 'cron' ? recurrence.cron : undefined)
  const input: unknown = fromJsonText(job.input, null)
  const args = ojs?.args === 'many' ? input : ojs?.args === 'none' ? [] : [input]
  const time = (ms: number | null | undefined): string | undefined =>
    ms === null || ms === undefined ? undefined : new Date(ms).toISOString()
  return {
    name: splitName(name).name,
    expression,
    cron: expression,
    timezone: recurrence.kind === 'cron' ? recurrence.timezone : undefined,
    overlap_policy: cron?.overlap ?? record.overlap,
    enabled: nextDueMs !== null,
    status: record.paused ? 'paused' : nextDueMs === null ? 'completed' : 'active',
    type: job.task,
    args,
    meta,
    options: ojs?.options,
    queue: splitName(job.queue).name,
    job_template: { type: job.task, args, meta, options: ojs?.options },
    next_run_at: time(nextDueMs),
    last_run_at: time(lastDueMs),
    last_job_id: lastJob ?? undefined,
    run_count: runs,
    created_at: time(cron?.createdMs),
  }
}
