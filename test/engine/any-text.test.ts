// Any text in any place: a store may not be able to keep it, and nothing may stop because of it.
import * as fc from '../properties.ts'
import { describe, expect, test } from 'vitest'
import { isStorable, storableText } from '../../src/base/text.ts'
import { createHttpApp } from '../../src/exports/http.ts'
import { call, input, limit, silentLogger, type Sluice, task } from '../../src/exports/index.ts'
import type { ManualClock } from '../../src/exports/testing.ts'
import { everyStore } from '../stores.ts'
import { createEngineHarness } from './engine-harness.ts'

/** The parts of an answer that the test looks into. */
interface Sent {
  readonly job?: { readonly id: string }
  readonly jobs?: readonly { readonly id: string; readonly args: unknown }[]
}

interface Input {
  readonly key: string
  readonly fails: boolean
  readonly value: unknown
}

const crm = limit('crm', { rate: 1000, per: '1s' })
const work = task('work.item', input<Input>(), {
  limits: [crm.by((each) => each.key)],
  retry: { attempts: 1 },
  run({ fails, key, value }) {
    if (fails) throw Object.assign(new Error(key), { code: key })
    return value
  },
})

const ODD = [
  '\0',
  '\ud800',
  '\udc00',
  '\ud83d\ude00',
  '\u0001',
  '"',
  "'",
  '\\',
  '\\u0000',
  '$1',
  '{}',
  '\u2028',
  '\ufeff',
  'é',
  '￿',
  'a',
  ' ',
  '/',
  '__proto__',
  '\n',
]
const text = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.array(fc.constantFrom(...ODD), { minLength: 1, maxLength: 6 }).map((parts) => parts.join('')),
  },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', minLength: 1 }) },
  { weight: 1, arbitrary: fc.constantFrom('x'.repeat(2000), `${'x'.repeat(2000)}\ud800`, `${'é'.repeat(600)}\0`) },
)
const RUNS = { numRuns: 15, examples: [['a\0b'], ['a\ud800'], ['\udc00b'], ['__proto__']] as [string][] }

describe.each(await everyStore('any text in any place'))('on $name', ({ create }) => {
  async function open(): Promise<{ engine: Sluice; clock: ManualClock }> {
    const { clock, start } = createEngineHarness()
    return { clock, engine: await start({ tasks: [work], store: create(), limits: [crm] }) }
  }

  test('as a key, in an input, in meta, tags, a result and an error: the job runs and can be looked at, and so can others', async () => {
    const { engine, clock } = await open()
    await fc.assert(
      fc.asyncProperty(text, async (odd) => {
        const value = { [odd]: [odd], nested: { odd } }
        const given = { fairKey: odd, meta: { [odd]: odd }, tags: [odd] }
        const ran = await engine.enqueue(work, { key: odd, fails: false, value }, { ...given, unique: odd })
        const failed = await engine.enqueue(work, { key: odd, fails: true, value }, given)
        const later = await engine.enqueue(work, { key: odd, fails: false, value }, { ...given, delay: '1h' })
        const plain = await engine.enqueue(work, { key: 'plain', fails: false, value: 1 })
        expect((await engine.jobs.explain(later.id)).job.id).toBe(later.id)
        await clock.advance('2s')
        expect((await engine.jobs.get(plain.id))?.state).toBe('completed')
        const job = await engine.jobs.get(ran.id)
        expect(job).toMatchObject({ state: 'completed', tags: [odd] })
        expect(job?.result).toEqual(value)
        expect(job?.meta).toEqual(given.meta)
        expect(job?.input).toMatchObject({ value })
        expect(await ran.result()).toEqual(value)
        const { error, state } = (await engine.jobs.get(failed.id)) ?? {}
        expect(state).toBe('discarded')
        expect(error).toEqual({ code: odd.slice(0, 255), message: `Error: ${odd}` })
        expect((await engine.jobs.explain(failed.id)).words).toContain('discarded')
        expect(await engine.limits.inspect('crm', odd)).toHaveLength(1)
        expect(await engine.jobs.cancel(later.id)).toBe(true)
        expect((await engine.jobs.list({ limit: 4 })).map(({ id }) => id)).toEqual(
          [plain, later, failed, ran].map(({ id }) => id),
        )
      }),
      RUNS,
    )
  })

  test('as a key of an override or a pause, as who and why: it holds for that key, and is told', async () => {
    const { engine, clock } = await open()
    await fc.assert(
      fc.asyncProperty(text, async (odd) => {
        const remark = { by: odd.slice(0, 255), reason: odd.slice(0, 1000) }
        await engine.limits.override('crm', odd, { rate: 5 }, remark)
        await engine.limits.pause('crm', odd, remark)
        const held = await engine.enqueue(work, { key: odd, fails: false, value: 1 })
        await clock.advance('2s')
        expect((await engine.jobs.get(held.id))?.state).toBe('available')
        expect((await engine.jobs.explain(held.id)).overrides.map(({ by, reason }) => ({ by, reason }))).toContainEqual(
          {
            by: storableText(remark.by),
            reason: storableText(remark.reason),
          },
        )
        expect(await engine.limits.resume('crm', odd, remark)).toBe(true)
        expect(await engine.limits.clearOverride('crm', odd, remark)).toBe(true)
        await engine.limits.penalize('crm', odd, '1s')
        await clock.advance('3s')
        expect((await engine.jobs.get(held.id))?.state).toBe('completed')
      }),
      RUNS,
    )
  })

  test('as a name it is refused, or means what it says', async () => {
    const { engine, clock } = await open()
    const plain = { key: 'plain', fails: false, value: 1 }
    await fc.assert(
      fc.asyncProperty(text, async (odd) => {
        const fine = isStorable(odd) && odd.length <= 255
        const refusedAs = async (code: string, work_: () => unknown): Promise<void> => {
          const refusal = await Promise.resolve()
            .then(work_)
            .then(
              () => null,
              (error: { code: string }) => error.code,
            )
          expect(refusal).toBe(fine ? null : code)
        }
        await refusedAs('policy.invalid', () => limit(odd, { rate: 1, per: '1s' }))
        await refusedAs('schedule.invalid', () => engine.schedule(work, plain, { name: odd, every: '1h' }))
        expect((await engine.schedules.get(odd))?.name).toBe(fine ? odd : undefined)
        expect(await engine.schedules.remove(odd)).toBe(fine)
        const jobs = [call(work, plain)]
        await refusedAs('flow.invalid', () => engine.flows.start({ kind: 'group', name: odd, jobs }))
        for (const queue of [odd, `q${odd}`])
          if (!/^[a-z0-9][a-z0-9.-]{0,127}$/.test(queue))
            await expect(engine.enqueue(work, plain, { queue })).rejects.toMatchObject({ code: 'queue.invalid' })
        await clock.advance('1s')
      }),
      RUNS,
    )
  })

  test('as what is asked for, nothing is found by it', async () => {
    const { engine } = await open()
    await fc.assert(
      fc.asyncProperty(text, async (odd) => {
        expect(await engine.jobs.get(odd)).toBeNull()
        expect(await engine.flows.get(odd)).toBeNull()
        expect(await engine.schedules.remove(odd)).toBe(false)
        expect(await engine.jobs.list({ queue: odd })).toEqual([])
        expect(await engine.jobs.list({ task: odd })).toEqual([])
        expect(await engine.jobs.list({ flow: odd })).toEqual([])
        expect(await engine.flows.list({ name: odd })).toEqual([])
        await expect(engine.jobs.cancel(odd)).rejects.toMatchObject({ code: 'job.not_found' })
        await expect(engine.jobs.retry(odd)).rejects.toMatchObject({ code: 'job.not_found' })
        await expect(engine.jobs.explain(odd)).rejects.toMatchObject({ code: 'job.not_found' })
        await expect(engine.flows.cancel(odd)).rejects.toMatchObject({ code: 'flow.not_found' })
        await expect(engine.limits.inspect(odd)).rejects.toMatchObject({ code: 'limit.unknown' })
        await expect(engine.limits.override(odd, odd, { rate: 1 })).rejects.toMatchObject({ code: 'limit.unknown' })
        await expect(engine.limits.pause(odd)).rejects.toMatchObject({ code: 'limit.unknown' })
        await expect(engine.limits.penalize(odd, odd, '1s')).rejects.toMatchObject({ code: 'limit.unknown' })
      }),
      RUNS,
    )
  })

  test('over HTTP every request is answered, none by a fault of the server', async () => {
    const { engine, clock } = await open()
    const app = createHttpApp({ sluice: engine, clock, logger: silentLogger })
    const send = async (method: string, path: string, body?: unknown): Promise<Sent> => {
      const response = await app.fetch(
        new Request(`http://server${path}`, {
          method,
          ...(body !== undefined && {
            body: JSON.stringify(body),
            headers: { 'Content-Type': 'application/openjobspec+json' },
          }),
        }),
      )
      expect(`${response.status} ${method} ${path}`).toMatch(/^[234]/)
      return (await response.json()) as Sent
    }
    await fc.assert(
      fc.asyncProperty(text, async (odd) => {
        const name = encodeURIComponent(storableText(odd))
        const options = {
          queue: 'outside',
          tags: [odd.slice(0, 255)],
          rate_limit: { x_limit: { name: 'crm', key: odd.slice(0, 1024) } },
        }
        const pushed = await send('POST', '/ojs/v1/jobs', {
          type: 'odd.job',
          args: [odd],
          meta: { [odd]: odd },
          options,
        })
        await send('POST', '/ojs/v1/jobs', {
          type: 'odd.job',
          args: [odd],
          options: { rate_limit: { x_limit: { name: odd } } },
        })
        await send('POST', '/ojs/v1/jobs', { type: odd, args: [], options: { queue: odd, unique: { key: odd } } })
        await send('POST', '/ojs/v1/workflows', { type: 'group', name: odd, jobs: [{ type: 'odd.job', args: [odd] }] })
        await send('PUT', '/ojs/v1/rate-limits/own', { concurrency: 5, partition: odd })
        await send('GET', `/ojs/v1/rate-limits/own?partition=${name}`)
        for (const path of ['jobs', 'rate-limits', 'cron', 'workflows', 'queues'])
          await send('GET', `/ojs/v1/${path}/${name}`)
        await send('POST', '/ojs/v1/workers/fetch', { queues: ['outside'], worker_id: odd.slice(0, 255) })
        const { jobs } = await send('POST', '/ojs/v1/workers/fetch', { queues: ['outside'], count: 100 })
        for (const job of jobs ?? []) {
          if (job.id === pushed.job?.id) expect(job.args).toEqual([odd])
          const error = {
            code: odd.slice(0, 255),
            retryable: false,
            message: odd,
            type: odd.slice(0, 255),
            details: { [odd]: odd },
          }
          await send('POST', '/ojs/v1/workers/nack', { job_id: job.id, error })
        }
        if (pushed.job) await send('GET', `/ojs/v1/jobs/${pushed.job.id}`)
        await clock.advance('1s')
        for (const path of [
          '/metrics',
          '/ojs/v1/health',
          '/ojs/v1/rate-limits',
          '/ojs/v1/queues',
          '/ojs/v1/admin/jobs',
        ])
          expect((await app.fetch(new Request(`http://server${path}`))).status).toBeLessThan(500)
      }),
      { ...RUNS, numRuns: 5 },
    )
    app.close()
  })
})
