// Odd texts in every field that the dashboard shows: none of them runs a script or breaks a page.
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { workflow } from '../../src/exports/flows.ts'
import { input, limit, NonRetryable, silentLogger, Sluice, task } from '../../src/exports/index.ts'
import { everyStore } from '../stores.ts'
import { findBrowser, serveDashboard } from './browser.ts'

const LEFT_OUT = 'odd texts in the dashboard'
const browser = await findBrowser(LEFT_OUT)
const kinds = browser ? await everyStore(LEFT_OUT) : []
afterAll(() => browser?.close())

/** Names of things: what a store keeps unchanged. */
const NAMES: readonly string[] = [
  '<script>stolen()</script>',
  '"><img src=x onerror=stolen()>',
  'javascript:stolen()',
  '\u202Egnp.exe \u2066right to left\u2069',
  '\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627',
  '../..%2f?q=#&=;~',
  '\u2028\u2029\u200b\ufeff',
  '\u{1f9d1}\u200d\u{1f680} e\u0301',
  '\u0001\u001b[31m\t\r\n',
  'W'.repeat(200),
]
/** Values: also what only JSON can hold. */
const VALUES: readonly string[] = [...NAMES, '\0 zero', 'half \ud83d', '\udc00', `${'<b>'.repeat(349_000)}1 MB`]

const LISTS = ['', '/limits', '/jobs', '/flows', '/queues', '/schedules', '/workers', '/tasks', '/bulk', '/audit']

interface Odd {
  readonly at: number
  readonly text: string
}

/** A service whose every field is odd. */
function oddEngine(store: string): Sluice {
  const budgets = NAMES.map((name) => limit(name, { rate: 1, per: '1h' }))
  const work = NAMES.map((_, at) =>
    task(`odd.work${at}`, input<Odd>(), {
      retry: { attempts: 1 },
      run: ({ text }, ctx) => {
        ctx.logger.info({ [text.slice(0, 99)]: text }, text)
        ctx.progress(0.5)
        if (at % 2 === 0) throw new NonRetryable(text, { cause: new TypeError(text) })
        return { [text]: text }
      },
    }),
  )
  const waits = NAMES.map((_, at) =>
    task(`odd.wait${at}`, input<Odd>(), { limits: [budgets[at]!.by(({ text }) => text)], run: () => undefined }),
  )
  const flow = workflow('odd.flow', input<Odd>(), {
    key: ({ text }) => text,
    signals: { 'go <b>': input<null>() },
    run: async ({ at, text }, self) => {
      await self.step(text.replaceAll(/[#*]/g, '+'), () => text)
      if (at % 2 === 0) throw new NonRetryable(text)
      await self.signal('go <b>')
    },
  })
  const sluice = new Sluice({
    store,
    tasks: [...work, ...waits],
    workflows: [flow],
    limits: budgets,
    logger: silentLogger,
  })
  odd.set(sluice, async () => {
    for (const [n, text] of VALUES.entries()) {
      const at = n % NAMES.length
      const note = text.slice(0, 1000)
      const isName = NAMES.includes(text)
      const notes = { tags: [note], meta: { [note.slice(0, 100)]: note } }
      await work[at]!.enqueue({ at, text }, { ...notes, ...(isName && { unique: { key: text } }) })
      if (!isName) continue
      for (let i = 0; i < 2; i++) await waits[at]!.enqueue({ at, text }, notes)
      await flow.start({ at, text })
      await sluice.schedule(work[at]!, { at, text }, { every: '1d', name: text })
      await sluice.limits.pause(text, text, { by: text, reason: text })
    }
  })
  return sluice
}
const odd = new WeakMap<Sluice, () => Promise<void>>()

describe.runIf(browser)('odd texts in every field', () => {
  it.each(kinds)(
    'are shown as text on $name',
    async (kind) => {
      const sluice = oddEngine(kind.create())
      await sluice.start()
      onTestFinished(() => sluice.stop({ within: 0 }))
      await odd.get(sluice)?.()
      const ended = { states: ['completed', 'discarded'] } as const
      await expect.poll(() => sluice.jobs.count(ended)).toBeGreaterThanOrEqual(VALUES.length)
      const author = NAMES[1]!
      const { url } = await serveDashboard(sluice, {
        redact: false,
        authorize: () => ({ role: 'operator', name: author }),
      })
      await fetch(`${url}/monitor/v1/bulk`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-sluice-request': '1' },
        body: JSON.stringify({ action: 'cancel', filter: { q: NAMES[0], state: 'retryable' }, reason: NAMES[1] }),
      })
      const { page, complaints } = await browser!.window()
      await page.exposeFunction('stolen', () => complaints.push('a payload ran'))
      const ids = (await sluice.jobs.list({ limit: 200 })).map(({ id }) => id)
      const flows = (await sluice.flows.list({})).map(({ id }) => id)
      const each = encodeURIComponent
      const paths = [
        ...LISTS,
        ...NAMES.flatMap((name) => [`/limits/${each(name)}`, `/limits/${each(name)}/keys/${each(name)}`]),
        ...VALUES.slice(0, -1).map((text) => `/jobs?q=${each(text.toWellFormed())}&queue=${each(text.toWellFormed())}`),
        ...ids.map((id) => `/jobs/${id}`),
        ...flows.map((id) => `/flows/${id}`),
      ]
      const found: string[] = []
      for (const path of paths) {
        await page.goto(`${url}${path}`)
        await page.locator('h1').first().waitFor()
        await page.locator('[role=status]:has-text("Loading")').first().waitFor({ state: 'detached' })
        const said = await page.locator('[role=alert]').allTextContents()
        const foreign = await page.locator('main :is(script, img, iframe, style, form, base, meta, b)').count()
        const wide = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
        for (const text of [...said, ...complaints.splice(0)])
          found.push(`${path.slice(0, 80)} says ${text.slice(0, 200)}`)
        if (foreign > 0) found.push(`${path.slice(0, 80)} has ${foreign} elements of a text`)
        if (wide > 0) found.push(`${path.slice(0, 80)} is ${wide} px too wide`)
      }
      expect(found).toEqual([])
      // A hundred pages.
    },
    600_000,
  )
})
