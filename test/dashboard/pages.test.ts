// Every page in a real Chromium, over the data of a service at work, on each store.
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import axe from 'axe-core'
import type { Page } from 'playwright-core'
import type { Sluice } from '../../src/exports/index.ts'
import { everyStore, type StoreKind } from '../stores.ts'
import { findBrowser, serveDashboard } from './browser.ts'
import { busyEngine, enqueueMail, enqueueSync, fill, LONG_NAME } from './busy-engine.ts'

const LEFT_OUT = 'the dashboard in a browser'
const browser = await findBrowser(LEFT_OUT)
const kinds = browser ? await everyStore(LEFT_OUT) : []
afterAll(() => browser?.close())

async function busy(kind: StoreKind): Promise<Sluice> {
  const sluice = busyEngine(kind.create())
  await sluice.start()
  onTestFinished(() => sluice.stop({ within: 0 }))
  await fill(sluice)
  // Every mailbox budget is used up by then, and the first cards are declined.
  await expect.poll(() => sluice.jobs.list({ states: ['discarded'] }).then((jobs) => jobs.length)).toBeGreaterThan(0)
  return sluice
}

const PAGES = [
  ['/', 'Overview'],
  ['/limits', 'Limits'],
  ['/limits/crm', 'crm'],
  ['/limits/crm/keys/acme', 'crm · acme'],
  [`/limits/crm/keys/${LONG_NAME}`, `crm · ${LONG_NAME}`],
  ['/limits/mail/keys/~', 'mail'],
  ['/jobs', 'Jobs'],
  ['/jobs?state=discarded&task=card.charge', 'Jobs'],
  ['/flows', 'Flows'],
  ['/queues', 'Queues'],
  ['/schedules', 'Schedules'],
  ['/workers', 'Workers'],
  ['/audit', 'Audit'],
] as const

/** The pages of one job and of one flow: their addresses are known when there is one. */
async function pagesOf(sluice: Sluice): Promise<(readonly [string, string])[]> {
  const [declined] = await sluice.jobs.list({ states: ['discarded'] })
  const [flow] = await sluice.flows.list({ workflow: 'code.review' })
  return [
    ...PAGES,
    [`/jobs/${declined!.id}`, declined!.task],
    [`/jobs/${await enqueueSync('acme')}`, 'tenant.sync'],
    [`/flows/${flow!.id}`, 'code.review'],
  ]
}

async function shown(page: Page, title: string): Promise<void> {
  await page.locator('h1', { hasText: title }).waitFor()
  await page.locator('[role=status]:has-text("Loading")').first().waitFor({ state: 'detached' })
}

const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']

/** The findings of axe-core, in one line each. */
async function violations(page: Page): Promise<string[]> {
  // Evaluated by the debugger, which the page's policy does not concern.
  await page.evaluate(axe.source)
  return page.evaluate(`axe.run({ runOnly: ${JSON.stringify(RULES)} }).then(({ violations }) =>
    violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html.slice(0, 160)).join(' | ')))`)
}

describe.runIf(browser)('the dashboard in Chromium', () => {
  describe.each(kinds)('on $name', (kind) => {
    it('shows each page without an error, readable by everyone in both themes, and at 375 px', async () => {
      const sluice = await busy(kind)
      const { url } = await serveDashboard(sluice)
      const { page, complaints } = await browser!.window()
      for (const [path, title] of await pagesOf(sluice)) {
        for (const theme of ['light', 'dark'] as const) {
          await page.emulateMedia({ colorScheme: theme })
          await page.setViewportSize({ width: 1440, height: 900 })
          await page.goto(`${url}${path}`)
          await shown(page, title)
          // The page is the same on each store.
          if (kind.name === 'sqlite')
            expect({ at: `${path}, ${theme}`, found: await violations(page) }).toMatchObject({ found: [] })
        }
        expect({ path, alerts: await page.locator('[role=alert]').allTextContents() }).toEqual({ path, alerts: [] })
        await page.setViewportSize({ width: 375, height: 700 })
        const wide = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
        expect({ path, isWider: wide > 0 }).toEqual({ path, isWider: false })
        if (kind.name === 'sqlite')
          expect({ at: `${path}, 375 px`, found: await violations(page) }).toMatchObject({ found: [] })
      }
      expect(complaints).toEqual([])
    })

    it('leads in three clicks from the overview to why a job waits', async () => {
      const sluice = await busy(kind)
      const { url } = await serveDashboard(sluice)
      const { page } = await browser!.window()
      await page.goto(url)
      await page.getByRole('link', { name: 'crm · acme' }).first().click()
      await page.getByRole('region', { name: 'Jobs in line' }).getByRole('link', { name: 'tenant.sync' }).nth(2).click()
      const why = page.getByTestId('why')
      await why.waitFor()
      expect(await why.textContent()).toMatch(/Waits for crm · acme, \d+(st|nd|rd|th) in line, starts (at|about) /)
    })

    it('shows a change within a second', async () => {
      const sluice = await busy(kind)
      const { url } = await serveDashboard(sluice)
      const { page } = await browser!.window()
      await page.goto(`${url}/queues`)
      await shown(page, 'Queues')
      await page.locator('[data-testid=connection]:visible', { hasText: 'Live' }).waitFor()
      const row = page.getByRole('row', { name: /^later/ })
      expect(await row.count()).toBe(0)
      const began = performance.now()
      await enqueueMail('ada@example.com', 'late', 'later')
      await row.waitFor()
      // The promise is a second; the rest is for a machine that does other things, too.
      expect(performance.now() - began).toBeLessThan(3000)
    })

    it('says that the connection is lost, and goes on by itself when the server is back', async () => {
      const sluice = await busy(kind)
      const served = await serveDashboard(sluice)
      const { page } = await browser!.window()
      await page.goto(`${served.url}/queues`)
      await page.locator('[data-testid=connection]:visible', { hasText: 'Live' }).waitFor()
      await served.stop()
      await page.getByRole('alert').filter({ hasText: 'The connection to the server is lost' }).waitFor()
      await enqueueMail('ada@example.com', 'meanwhile', 'meanwhile')
      await served.restart()
      await page.locator('[data-testid=connection]:visible', { hasText: 'Live' }).waitFor()
      await page.getByRole('row', { name: /^meanwhile/ }).waitFor()
      expect(await page.getByRole('alert').count()).toBe(0)
    })

    it('shows hostile texts as text', async () => {
      const sluice = await busy(kind)
      const { url } = await serveDashboard(sluice, { redact: false })
      const { page, complaints } = await browser!.window()
      await page.exposeFunction('stolen', () => complaints.push('a payload ran'))
      for (const [n, text] of HOSTILE.entries()) {
        const id = await enqueueSync(text, { text, [text.slice(0, 60)]: 'as a name' })
        const mail = await enqueueMail(text, text)
        await page.goto(`${url}/jobs/${id}`)
        await shown(page, 'tenant.sync')
        await expect.poll(() => page.locator('main').textContent(), { message: text }).toContain(JSON.stringify(text))
        await page.goto(`${url}/jobs/${mail}`)
        await shown(page, 'mail.send')
        await page.goto(`${url}/jobs?q=${encodeURIComponent(text)}`)
        await shown(page, 'Jobs')
        if (n % 5 === 0) {
          await page.goto(`${url}/limits/crm`)
          await shown(page, 'crm')
        }
      }
      expect(complaints).toEqual([])
    })
  })
})

const HOSTILE = [
  '<script>stolen()</script>',
  '<img src=x onerror=stolen()>',
  '"><svg onload=stolen()>',
  "'-stolen()-'",
  'javascript:stolen()',
  '</script><script>stolen()</script>',
  '<iframe srcdoc="<script>parent.stolen()</script>">',
  '{{constructor.constructor("stolen()")()}}',
  '${stolen()}',
  '<a href="javascript:stolen()">x</a>',
  '<style>@import "//evil.example"</style>',
  '<base href="//evil.example/">',
  '<meta http-equiv="refresh" content="0;url=//evil.example">',
  '<form action="//evil.example"><input name=x>',
  '<math><mtext></mtext><mglyph><style><img src=x onerror=stolen()>',
  '\u202Egnp.exe',
  '--><!--<img src=x onerror=stolen()>',
  '<template><img src=x onerror=stolen()></template>',
  '__proto__',
  '<div style="position:fixed;inset:0">over all</div>',
]
