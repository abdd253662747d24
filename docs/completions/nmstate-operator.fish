# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_nmstate_operator_global_optspecs
    string join \n log-level= h/help V/version
end

function __fish_nmstate_operator_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_nmstate_operator_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_nmstate_operator_using_subcommand
    set -l cmd (__fish_nmstate_operator_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c nmstate-operator -n "__fish_nmstate_operator_needs_command" -l log-level -d 'Level of the log on standard error' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c nmstate-operator -n "__fish_nmstate_operator_needs_command" -s h -l help -d 'Print help'
complete -c nmstate-operator -n "__fish_nmstate_operator_needs_command" -s V -l version -d 'Print version'
complete -c nmstate-operator -n "__fish_nmstate_operator_needs_command" -f -a "operator" -d 'Decide whether handlers run, deploy them, and report the status; one leader per cluster'
complete -c nmstate-operator -n "__fish_nmstate_operator_needs_command" -f -a "handler" -d 'Apply policies to this node and report its network; one runs on every node'
complete -c nmstate-operator -n "__fish_nmstate_operator_needs_command" -f -a "coordinator" -d 'Schedule node updates and write the status of policies; one leader per cluster'
complete -c nmstate-operator -n "__fish_nmstate_operator_needs_command" -f -a "retry" -d 'Retry a policy on the nodes where it failed'
complete -c nmstate-operator -n "__fish_nmstate_operator_needs_command" -f -a "revert" -d 'Revert a policy on some of its nodes, or apply it there again'
complete -c nmstate-operator -n "__fish_nmstate_operator_needs_command" -f -a "take-over" -d 'Replace kubernetes-nmstate in this cluster, with your permissions'
complete -c nmstate-operator -n "__fish_nmstate_operator_needs_command" -f -a "give-back" -d 'Restore kubernetes-nmstate after a take-over, with your permissions'
complete -c nmstate-operator -n "__fish_nmstate_operator_needs_command" -f -a "guest-access" -d 'Beside a hosted control plane: write tokens of a service account of the guest cluster'
complete -c nmstate-operator -n "__fish_nmstate_operator_needs_command" -f -a "manifests" -d 'Write the files of a release payload'
complete -c nmstate-operator -n "__fish_nmstate_operator_needs_command" -f -a "gather" -d 'Collect documents, profiles, Open vSwitch and the network state of this node, without secrets'
complete -c nmstate-operator -n "__fish_nmstate_operator_needs_command" -f -a "version" -d 'Print the version'
complete -c nmstate-operator -n "__fish_nmstate_operator_needs_command" -f -a "completion" -d 'Print a completion script'
complete -c nmstate-operator -n "__fish_nmstate_operator_needs_command" -f -a "generate-docs" -d 'Write man pages and the reference of commands'
complete -c nmstate-operator -n "__fish_nmstate_operator_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand operator" -l operand-image -d 'Image of the handlers and the coordinator' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand operator" -l release-version -d 'Version to report to the cluster' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand operator" -l default-platforms -d 'Platforms on which an NMState is created by default, separated by commas' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand operator" -l identity -d 'Identity of this operator in the lease' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand operator" -l listen -d 'Address of the health endpoints' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand operator" -l metrics-listen -d 'Address of the metrics port, over TLS and for the cluster\'s monitoring only; without it, metrics are not served' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand operator" -l metrics-certificate -d 'Certificate for metrics, as PEM; read again when it changes' -r -F
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand operator" -l metrics-key -d 'Key of that certificate, as PEM; read again when it changes' -r -F
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand operator" -l metrics-client -d 'Common name in the certificate of the only client that may read metrics' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand operator" -l log-level -d 'Level of the log on standard error' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand operator" -l hosted -d 'Run beside a hosted control plane, without a lease: one replica is ensured there'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand operator" -s h -l help -d 'Print help'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand handler" -l node-name -d 'Node of this handler' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand handler" -l node-lock -d 'Lock file that prevents two handlers on one node; the change in progress is recorded beside it' -r -F
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand handler" -l dns-probe-name -d 'Name that the DNS probe resolves after a change' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand handler" -l patience -d 'Seconds that the network may take to work after a change, before the change is rolled back' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand handler" -l checkpoint -d 'Seconds after which NetworkManager rolls back a change that is not confirmed, instead of what `--patience` needs. For tests that interrupt changes' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand handler" -l listen -d 'Address of the health endpoints' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand handler" -l metrics-listen -d 'Address of the metrics port, over TLS and for the cluster\'s monitoring only; without it, metrics are not served' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand handler" -l metrics-certificate -d 'Certificate for metrics, as PEM; read again when it changes' -r -F
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand handler" -l metrics-key -d 'Key of that certificate, as PEM; read again when it changes' -r -F
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand handler" -l metrics-client -d 'Common name in the certificate of the only client that may read metrics' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand handler" -l tls-min-version -d 'Oldest version of TLS for metrics: VersionTLS12 or VersionTLS13' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand handler" -l tls-cipher-suites -d 'Cipher suites of TLS 1.2 for metrics, by their IANA names, separated by commas [default: all secure ones]' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand handler" -l tls-groups -d 'Key exchange groups of TLS for metrics, in order of preference, separated by commas [default: all supported ones]' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand handler" -l log-level -d 'Level of the log on standard error' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand handler" -l memory-only -d 'Undo changes at the next reboot, unless their policy specifies otherwise'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand handler" -s h -l help -d 'Print help'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand coordinator" -l namespace -d 'Namespace of the leader election lease' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand coordinator" -l identity -d 'Identity of this coordinator in the lease' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand coordinator" -l lease -d 'Seconds after which another coordinator replaces a leader that no longer renews its lease' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand coordinator" -l listen -d 'Address of the health endpoints' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand coordinator" -l metrics-listen -d 'Address of the metrics port, over TLS and for the cluster\'s monitoring only; without it, metrics are not served' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand coordinator" -l metrics-certificate -d 'Certificate for metrics, as PEM; read again when it changes' -r -F
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand coordinator" -l metrics-key -d 'Key of that certificate, as PEM; read again when it changes' -r -F
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand coordinator" -l metrics-client -d 'Common name in the certificate of the only client that may read metrics' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand coordinator" -l tls-min-version -d 'Oldest version of TLS for metrics: VersionTLS12 or VersionTLS13' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand coordinator" -l tls-cipher-suites -d 'Cipher suites of TLS 1.2 for metrics, by their IANA names, separated by commas [default: all secure ones]' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand coordinator" -l tls-groups -d 'Key exchange groups of TLS for metrics, in order of preference, separated by commas [default: all supported ones]' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand coordinator" -l log-level -d 'Level of the log on standard error' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand coordinator" -s h -l help -d 'Print help'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand retry" -l node -d 'Retry on this node only; can be repeated' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand retry" -l log-level -d 'Level of the log on standard error' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand retry" -s h -l help -d 'Print help'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand revert" -l node -d 'Revert it on this node; can be repeated' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand revert" -l log-level -d 'Level of the log on standard error' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand revert" -l undo -d 'Apply the policy to these nodes again'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand revert" -s h -l help -d 'Print help'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand take-over" -l log-level -d 'Level of the log on standard error' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand take-over" -l yes -d 'Make the changes; without this flag only print them'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand take-over" -s h -l help -d 'Print help'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand give-back" -l log-level -d 'Level of the log on standard error' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand give-back" -l yes -d 'Make the changes; without this flag only print them'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand give-back" -s h -l help -d 'Print help'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand guest-access" -l service-account -d 'The service account in the guest cluster' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand guest-access" -l namespace -d 'Its namespace' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand guest-access" -l out -d 'Folder for `kubeconfig`, `token` and `ca.crt`' -r -F
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand guest-access" -l log-level -d 'Level of the log on standard error' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand guest-access" -l once -d 'Exit as soon as the files exist'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand guest-access" -s h -l help -d 'Print help'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand manifests" -l out -d 'Folder to write to; created if it does not exist. Files with other names are kept' -r -F
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand manifests" -l hosted -d 'Write what runs beside a hosted control plane, in this namespace of the management cluster' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand manifests" -l kubernetes -d 'Write what a Kubernetes cluster other than OpenShift needs, with this image; apply the folder with kubectl' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand manifests" -l log-level -d 'Level of the log on standard error' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand manifests" -s h -l help -d 'Print help'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand gather" -l out -d 'Folder to write to, which must be new or empty; `-` writes a tar archive to standard output' -r -F
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand gather" -l node -d 'Name of the node [default: the host name]' -r
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand gather" -l log-level -d 'Level of the log on standard error' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand gather" -s h -l help -d 'Print help'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand version" -l log-level -d 'Level of the log on standard error' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand version" -s h -l help -d 'Print help'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand completion" -l log-level -d 'Level of the log on standard error' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand completion" -s h -l help -d 'Print help'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand generate-docs" -l out -d 'Folder to write to' -r -F
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand generate-docs" -l log-level -d 'Level of the log on standard error' -r -f -a "error\t''
warn\t''
info\t''
debug\t''
trace\t''"
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand generate-docs" -s h -l help -d 'Print help'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand help; and not __fish_seen_subcommand_from operator handler coordinator retry revert take-over give-back guest-access manifests gather version completion generate-docs help" -f -a "operator" -d 'Decide whether handlers run, deploy them, and report the status; one leader per cluster'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand help; and not __fish_seen_subcommand_from operator handler coordinator retry revert take-over give-back guest-access manifests gather version completion generate-docs help" -f -a "handler" -d 'Apply policies to this node and report its network; one runs on every node'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand help; and not __fish_seen_subcommand_from operator handler coordinator retry revert take-over give-back guest-access manifests gather version completion generate-docs help" -f -a "coordinator" -d 'Schedule node updates and write the status of policies; one leader per cluster'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand help; and not __fish_seen_subcommand_from operator handler coordinator retry revert take-over give-back guest-access manifests gather version completion generate-docs help" -f -a "retry" -d 'Retry a policy on the nodes where it failed'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand help; and not __fish_seen_subcommand_from operator handler coordinator retry revert take-over give-back guest-access manifests gather version completion generate-docs help" -f -a "revert" -d 'Revert a policy on some of its nodes, or apply it there again'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand help; and not __fish_seen_subcommand_from operator handler coordinator retry revert take-over give-back guest-access manifests gather version completion generate-docs help" -f -a "take-over" -d 'Replace kubernetes-nmstate in this cluster, with your permissions'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand help; and not __fish_seen_subcommand_from operator handler coordinator retry revert take-over give-back guest-access manifests gather version completion generate-docs help" -f -a "give-back" -d 'Restore kubernetes-nmstate after a take-over, with your permissions'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand help; and not __fish_seen_subcommand_from operator handler coordinator retry revert take-over give-back guest-access manifests gather version completion generate-docs help" -f -a "guest-access" -d 'Beside a hosted control plane: write tokens of a service account of the guest cluster'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand help; and not __fish_seen_subcommand_from operator handler coordinator retry revert take-over give-back guest-access manifests gather version completion generate-docs help" -f -a "manifests" -d 'Write the files of a release payload'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand help; and not __fish_seen_subcommand_from operator handler coordinator retry revert take-over give-back guest-access manifests gather version completion generate-docs help" -f -a "gather" -d 'Collect documents, profiles, Open vSwitch and the network state of this node, without secrets'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand help; and not __fish_seen_subcommand_from operator handler coordinator retry revert take-over give-back guest-access manifests gather version completion generate-docs help" -f -a "version" -d 'Print the version'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand help; and not __fish_seen_subcommand_from operator handler coordinator retry revert take-over give-back guest-access manifests gather version completion generate-docs help" -f -a "completion" -d 'Print a completion script'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand help; and not __fish_seen_subcommand_from operator handler coordinator retry revert take-over give-back guest-access manifests gather version completion generate-docs help" -f -a "generate-docs" -d 'Write man pages and the reference of commands'
complete -c nmstate-operator -n "__fish_nmstate_operator_using_subcommand help; and not __fish_seen_subcommand_from operator handler coordinator retry revert take-over give-back guest-access manifests gather version completion generate-docs help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
