import { Argument, type Command } from 'commander'
import { completionScript, type Shell, SHELLS } from '../completion/script.ts'

const DETAILS = `
  bash   source <(sluice completion bash)                                  in ~/.bashrc
  zsh    source <(sluice completion zsh)                                   in ~/.zshrc, behind compinit
  fish   sluice completion fish > ~/.config/fish/completions/sluice.fish

Exit code: 0; 2 for another shell.`

/** Adds `sluice completion`. */
export function registerCompletion(program: Command): void {
  program
    .command('completion')
    .description('print the script by which a shell completes commands and options')
    .addArgument(new Argument('<shell>').choices(SHELLS))
    .addHelpText('after', DETAILS)
    .action((shell: Shell) => void process.stdout.write(completionScript(shell, program)))
}
