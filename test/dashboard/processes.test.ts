// The three commands that serve the page, as their users start them: processes of their own, looked at in Chromium.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { storeWithWaiting } from '../cli/terminal.ts'
import { findBrowser } from './browser.ts'

const browser = await findBrowser('the commands that serve the dashboard')
afterAll(() => browser?.close())

const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
const TOKEN = 'reader-0123456789'

/** Starts `sluice`; answers its process and the address that it names. */
async function started(
  args: readonly string[],
  address: RegExp,
  env: Record<string, string> = {},
): Promise<{ child: ChildProcess; url: string }> {
  const child = spawn(process.execPath, [MAIN, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  let out = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (out += chunk.toString()))
  await expect.poll(() => out).toMatch(address)
  return { child, url: address.exec(out)![1]! }
}

async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  const exit = once(child, 'exit')
  child.kill(signal)
  return ((await exit) as [number | null])[0]
}

describe.runIf(browser)('the page of', () => {
  it('sluice dashboard shows the store of another process, and changes it', async () => {
    const store = await storeWithWaiting()
    const { child, url } = await started(
      ['dashboard', '--store', store.url, '--port', '0'],
      /the dashboard is at (\S+)\/$/m,
    )
    const { page, complaints } = await browser!.window()
    await page.goto(`${url}/jobs/${store.acme[0]!}`)
    await page.getByTestId('why').getByRole('link', { name: 'crm · acme' }).waitFor()
    await page.getByRole('button', { name: 'Cancel', exact: true }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel', exact: true }).click()
    await page.locator('h1', { hasText: 'cancelled' }).waitFor()
    expect(complaints).toEqual([])
    expect(await ended(child, 'SIGTERM')).toBe(0)
  })

  it('sluice serve asks for a token of the server', async () => {
    const tokens = JSON.stringify([{ name: 'ada', token: TOKEN, scopes: ['reader'], tenant: '*' }])
    const { url } = await storeWithWaiting()
    const server = await started(['serve', '--store', url, '--port', '0'], /^listening on (\S+)$/m, {
      SLUICE_TOKENS: tokens,
    })
    const { page } = await browser!.window()
    await page.goto(`${server.url}/dashboard/limits`)
    await page.getByLabel('Token of the server').fill(TOKEN)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('row', { name: /^crm/ }).waitFor()
    await page.getByText('reads only').waitFor()
    expect(await ended(server.child, 'SIGTERM')).toBe(0)
  })

  it('sluice demo --dashboard shows the demo at work, until Ctrl-C', async () => {
    const { child, url } = await started(
      ['demo', '--fast', '--dashboard', '--port', '0'],
      /the dashboard is at (\S+)\/$/m,
    )
    const { page } = await browser!.window()
    await page.goto(`${url}/limits/partner-scale/keys/acme`)
    await page
      .getByRole('region', { name: 'Jobs in line' })
      .getByRole('link', { name: 'partner.sync' })
      .nth(1)
      .waitFor()
    expect(await ended(child, 'SIGINT')).toBe(130)
  })
})
