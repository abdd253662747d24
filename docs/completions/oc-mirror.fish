# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_oc_mirror_global_optspecs
    string join \n c/config= plan= from= workspace= through-workspace= dry-run= dry-run-manifest-lists= strict-dry-run= remove-signatures= refresh-signatures= secure-policy= policy= ignore-release-signature= max-nested-paths= icsp= skip-broken-bundles= helm-binary= strict-compat= since= no-archive= archive-format= sign-archive= verify-archive= remove-archives-before= archive-partial= allow-incomplete= strict-archive= authfile= registries.d= src-tls-verify= src-authfile= src-creds= src-username= src-password= src-registry-token= src-cert-dir= src-no-creds= dest-tls-verify= dest-authfile= dest-creds= dest-username= dest-password= dest-registry-token= dest-cert-dir= dest-no-creds= dest-precompute-digests= dest-oci-accept-uncompressed-layers= parallel-images= parallel-layers= retry-times= retry-delay= stall-timeout= limit-rate= src-limit-rate= dest-limit-rate= timetable= timezone= until= image-timeout= wait= q/quiet= o/output= v1= f/force= rootless-storage-path= tls-verify= cpu-prof= mem-prof= src-shared-blob-dir= dest-shared-blob-dir= src-daemon-host= dest-daemon-host= dest-compress= dest-decompress= dest-compress-format= dest-compress-level= log-level= v2= cache-dir= p/port= v/version h/help
end

function __fish_oc_mirror_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_oc_mirror_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_oc_mirror_using_subcommand
    set -l cmd (__fish_oc_mirror_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -s c -l config -d 'The image set configuration' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l plan -d 'Execute a stored plan, of working-dir/plans or of a dry run, instead of making one from a configuration' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l from -d 'Disk to mirror: the directory that was carried over, with archives or a whole workspace' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l workspace -d 'Mirror to mirror: the directory that keeps manifests, plan and log' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l through-workspace -d 'Mirror to mirror: keep all content in the workspace too, instead of copying it directly' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l dry-run -d 'Write what would be done below working-dir/dry-run; change nothing else' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l dry-run-manifest-lists -d 'The same, with a mapping line for each manifest of a list' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l strict-dry-run -d 'Exit with a failure when a dry run cannot find an image' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l remove-signatures -d 'Leave signatures, attestations, SBOMs and referrers behind' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l refresh-signatures -d 'Ask again for signatures of images that are held already' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l secure-policy -d 'Mirror only images that a trust policy lets in, by their signatures' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l policy -d 'The trust policy to enforce with --secure-policy [default: ~/.config/containers/policy.json, else /etc/containers/policy.json]' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l ignore-release-signature -d 'Mirror the release named by platform.release without a valid signature; noted in report and audit log' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l max-nested-paths -d 'Longest path of a repository at the destination; further parts are joined by \'-\' (0: no limit)' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l icsp -d 'Also write an ImageContentSourcePolicy, for clusters before 4.13' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l skip-broken-bundles -d 'Leave bundles out of mirrored catalogs when an image that they need cannot be had' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l helm-binary -d 'Also render charts with this Helm program, and report images that only one of both finds' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l strict-compat -d 'Refuse keys of the configuration that other readers of these files do not know' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l since -d 'Build the archive on the last run before this day (yyyy-MM-dd) instead of on the last run' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l no-archive -d 'Make no archive: leave the workspace only' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l archive-format -d 'Who reads the archive: landfall, or oc-mirror-v2 for sites that still run oc-mirror v2 on the other side' -r -f -a "landfall\t''
oc-mirror-v2\t''"
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l sign-archive -d 'Sign the archive with this private key of cosign (cosign.key; password in $COSIGN_PASSWORD): writes mirror_NNNNNN.tar.sig' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l verify-archive -d 'Disk to mirror: push only archives that are signed with this public key (cosign.pub)' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l remove-archives-before -d 'Remove archives of runs before this one, once the new archive is complete' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l archive-partial -d 'Write an archive of what has arrived when --until stops the run; the other side reads it with --allow-incomplete' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l allow-incomplete -d 'Push archives of a paused or interrupted run as far as they go' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l strict-archive -d 'Fail if a blob is larger than archiveSize; has an effect only with --archive-format oc-mirror-v2, as other archives split blobs' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l authfile -d 'Credentials, in the format of podman and docker [default: $REGISTRY_AUTH_FILE, else theirs]' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l registries.d -d 'Directory that says on which lookaside servers signatures are; read with --secure-policy [default: ~/.config/containers/registries.d, else /etc/containers/registries.d]' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l src-tls-verify -d 'Check certificates; false also allows plain HTTP' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l src-authfile -d 'Credentials file, instead of --authfile' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l src-creds -d 'User name and password' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l src-username -d 'User name' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l src-password -d 'Password' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l src-registry-token -d 'Bearer token' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l src-cert-dir -d 'Directory with CA (*.crt) and client certificates (*.cert, *.key)' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l src-no-creds -d 'Use no credentials at all' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l dest-tls-verify -d 'Check certificates; false also allows plain HTTP' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l dest-authfile -d 'Credentials file, instead of --authfile' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l dest-creds -d 'User name and password' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l dest-username -d 'User name' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l dest-password -d 'Password' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l dest-registry-token -d 'Bearer token' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l dest-cert-dir -d 'Directory with CA (*.crt) and client certificates (*.cert, *.key)' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l dest-no-creds -d 'Use no credentials at all' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l dest-precompute-digests -d 'Always so: a layer that the destination has is not uploaded again' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l dest-oci-accept-uncompressed-layers -d 'Always so: layers are kept as they are' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l parallel-images -d 'Images copied at once' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l parallel-layers -d 'Layers copied at once, of each image' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l retry-times -d 'How often a failed request is tried again' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l retry-delay -d 'Pause before trying again, such as 500ms or 10s (0: 1 s, then twice as long each time)' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l stall-timeout -d 'How long a connection may be silent before it is dropped; there is no limit on the whole of a transfer' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l limit-rate -d 'Most bytes per second of all transfers together, such as 20MiB, 500kB or 10Mbit [default: no limit]' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l src-limit-rate -d 'Most bytes per second from source registries [default: no limit]' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l dest-limit-rate -d 'Most bytes per second to the destination registry [default: no limit]' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l timetable -d 'Rates by time, such as "00:00-04:00 full, 04:00-06:00 2MiB, Sat-Sun full, else pause" [default: the configuration\'s timetable]' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l timezone -d 'Time zone of --timetable and --until, such as Europe/Oslo [default: the configuration\'s timezone, else this machine\'s]' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l until -d 'Stop at this time, such as 04:00 or 2026-11-17T04:00, with exit code 32; the next run continues' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l image-timeout -d 'Longest time for one blob or manifest, retries included [default: none; a stalled connection ends by itself]' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l wait -d 'Wait while another process uses the workspace, instead of ending with an error' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -s q -l quiet -d 'No progress; only errors and the report' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -s o -l output -d 'How the report is written to standard output: text or json' -r -f -a "text\t''
json\t''"
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l v1 -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -s f -l force -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l rootless-storage-path -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l tls-verify -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l cpu-prof -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l mem-prof -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l src-shared-blob-dir -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l dest-shared-blob-dir -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l src-daemon-host -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l dest-daemon-host -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l dest-compress -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l dest-decompress -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l dest-compress-format -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l dest-compress-level -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l log-level -d 'How much to say: error, info, debug or trace' -r -f -a "error\t''
info\t''
debug\t''
trace\t''"
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l v2 -d 'Accepted, and not needed: this is version 2' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -l cache-dir -d 'Cache of oc-mirror v2 to take content from instead of downloading it; it is only read [default: $OC_MIRROR_CACHE, else the home directory, if there is a cache]' -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -s p -l port -r
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -s v -l version -d 'Print the version and exit'
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -s h -l help -d 'Print help'
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -a "migrate" -d 'Convert a workspace, cache and history of oc-mirror v2; the old files are only read'
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -a "delete" -d 'Delete images from a registry: first a plan, then its execution'
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -a "prune" -d 'Delete what is no longer needed from a registry, after a confirmation'
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -a "serve" -d 'Serve a workspace as a read-only registry, under the names a target would have'
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -a "status" -d 'Show the runs of a workspace, live progress, and what is missing; pause, resume or stop a run'
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -a "verify" -d 'Check a workspace, archives or a registry: every byte against its digest, every reference'
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -a "repair" -d 'Check a workspace, and fetch only what is damaged or missing'
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -a "gc" -d 'Free content of a workspace that nothing needs any more'
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -a "list" -d 'List what there is to mirror'
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -a "upgrade-path" -d 'Show how a cluster gets from one version to another'
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -a "init" -d 'Make a configuration to start from, or one for what a cluster needs next'
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -a "inventory" -d 'Write down what a cluster has: release, channel, operators, catalogs, mirrors'
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -a "version" -d 'Print the version'
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -a "completion" -d 'Print a completion script for a shell'
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -a "generate-docs" -d 'Write man pages and the reference of flags'
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -a "describe" -d 'Arguments of a command that is not part of this version: none is looked at'
complete -c oc-mirror -n "__fish_oc_mirror_needs_command" -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand migrate" -s c -l config -d 'Configuration that selects the images to convert [default: the newest isc_pinned_*.yaml of OLD]' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand migrate" -l output -d 'How the report is written to standard output: text or json' -r -f -a "text\t''
json\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand migrate" -l log-level -d 'How much to say: error, info, debug or trace' -r -f -a "error\t''
info\t''
debug\t''
trace\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand migrate" -l v2 -d 'Accepted, and not needed: this is version 2' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand migrate" -l cache-dir -d 'Cache of oc-mirror v2 to take content from instead of downloading it; it is only read [default: $OC_MIRROR_CACHE, else the home directory, if there is a cache]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand migrate" -s p -l port -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand migrate" -s h -l help -d 'Print help'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l generate -d 'Write what would be deleted below working-dir/delete; delete nothing' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -s c -l config -d 'With --generate: the delete image set configuration' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l workspace -d 'The directory that was mirrored from [default: that of the list, the current one, or the one that mirrored to this registry]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l delete-yaml-file -d 'Delete the images in this list, which --generate wrote' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l delete-id -d 'With --generate: adds -ID to the names of the files' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l delete-signatures -d 'With --generate: also list the tags of signatures, for oc-mirror v2. Without it: no effect; signatures are always deleted with their image' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l delete-v1-images -d 'With --generate: also list images under the tags that oc-mirror v1 gave them' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l force-cache-delete -d 'Also remove deleted images from the workspace' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l dry-run -d 'Compare the list with the registry and report what would be deleted; change nothing' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l keep -d 'With --generate: keep what this image set configuration selects; may be repeated' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l ignore-configuration -d 'With --generate: do not keep what this configuration selects, although it was mirrored; may be repeated' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l all -d 'With --generate: allow everything that was mirrored to be deleted' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l update-catalogs -d 'First replace catalogs that offer deleted bundles by ones without them' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l max-nested-paths -d 'Longest path of a repository at the destination, as it was mirrored with (0: no limit)' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l authfile -d 'Credentials, in the format of podman and docker [default: $REGISTRY_AUTH_FILE, else theirs]' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -s o -l output -d 'How the report is written to standard output: text or json' -r -f -a "text\t''
json\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l dest-tls-verify -d 'Check certificates; false also allows plain HTTP' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l dest-authfile -d 'Credentials file, instead of --authfile' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l dest-creds -d 'User name and password' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l dest-username -d 'User name' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l dest-password -d 'Password' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l dest-registry-token -d 'Bearer token' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l dest-cert-dir -d 'Directory with CA (*.crt) and client certificates (*.cert, *.key)' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l dest-no-creds -d 'Use no credentials at all' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l dest-precompute-digests -d 'Always so: a layer that the destination has is not uploaded again' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l dest-oci-accept-uncompressed-layers -d 'Always so: layers are kept as they are' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l retry-times -d 'How often a failed request is tried again' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l retry-delay -d 'Pause before trying again, such as 500ms or 10s (0: 1 s, then twice as long each time)' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l stall-timeout -d 'How long a connection may be silent before it is dropped; there is no limit on the whole of a transfer' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l src-tls-verify -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l src-authfile -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l src-creds -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l src-username -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l src-password -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l src-cert-dir -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l src-no-creds -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l parallel-images -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l parallel-layers -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l registries.d -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l policy -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l log-level -d 'How much to say: error, info, debug or trace' -r -f -a "error\t''
info\t''
debug\t''
trace\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l v2 -d 'Accepted, and not needed: this is version 2' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -l cache-dir -d 'Cache of oc-mirror v2 to take content from instead of downloading it; it is only read [default: $OC_MIRROR_CACHE, else the home directory, if there is a cache]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -s p -l port -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand delete" -s h -l help -d 'Print help'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -s c -l config -d 'An image set configuration with a prune section, which selects what is deleted' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l keep -d 'Keep what this image set configuration selects; without -c, delete all else that was mirrored; may be repeated' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l ignore-configuration -d 'Do not keep what this configuration selects, although it was mirrored; may be repeated' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l workspace -d 'The directory that was mirrored from [default: the current one, or the one that mirrored to this registry]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -s y -l yes -d 'Delete without asking' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l dry-run -d 'Compare with the registry and report what would be deleted; change nothing' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l all -d 'Allow everything that was mirrored to be deleted' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l force-cache-delete -d 'Also remove deleted images from the workspace' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l update-catalogs -d 'First replace catalogs that offer deleted bundles by ones without them' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l max-nested-paths -d 'Longest path of a repository at the destination, as it was mirrored with (0: no limit)' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l authfile -d 'Credentials, in the format of podman and docker [default: $REGISTRY_AUTH_FILE, else theirs]' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -s o -l output -d 'How the report is written to standard output: text or json' -r -f -a "text\t''
json\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l dest-tls-verify -d 'Check certificates; false also allows plain HTTP' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l dest-authfile -d 'Credentials file, instead of --authfile' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l dest-creds -d 'User name and password' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l dest-username -d 'User name' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l dest-password -d 'Password' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l dest-registry-token -d 'Bearer token' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l dest-cert-dir -d 'Directory with CA (*.crt) and client certificates (*.cert, *.key)' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l dest-no-creds -d 'Use no credentials at all' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l dest-precompute-digests -d 'Always so: a layer that the destination has is not uploaded again' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l dest-oci-accept-uncompressed-layers -d 'Always so: layers are kept as they are' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l retry-times -d 'How often a failed request is tried again' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l retry-delay -d 'Pause before trying again, such as 500ms or 10s (0: 1 s, then twice as long each time)' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l stall-timeout -d 'How long a connection may be silent before it is dropped; there is no limit on the whole of a transfer' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l src-tls-verify -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l src-authfile -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l src-creds -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l src-username -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l src-password -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l src-cert-dir -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l src-no-creds -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l parallel-images -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l parallel-layers -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l registries.d -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l policy -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l log-level -d 'How much to say: error, info, debug or trace' -r -f -a "error\t''
info\t''
debug\t''
trace\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l v2 -d 'Accepted, and not needed: this is version 2' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -l cache-dir -d 'Cache of oc-mirror v2 to take content from instead of downloading it; it is only read [default: $OC_MIRROR_CACHE, else the home directory, if there is a cache]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -s p -l port -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand prune" -s h -l help -d 'Print help'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand serve" -l listen -d 'Address and port to listen on; only this machine unless you say otherwise' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand serve" -l tls-cert -d 'Certificate chain (PEM), for HTTPS' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand serve" -l tls-key -d 'Private key of the certificate (PEM)' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand serve" -l log-level -d 'How much to say: error, info, debug or trace' -r -f -a "error\t''
info\t''
debug\t''
trace\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand serve" -l v2 -d 'Accepted, and not needed: this is version 2' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand serve" -l cache-dir -d 'Cache of oc-mirror v2 to take content from instead of downloading it; it is only read [default: $OC_MIRROR_CACHE, else the home directory, if there is a cache]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand serve" -s p -l port -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand serve" -s h -l help -d 'Print help'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand status" -s o -l output -d 'text, json or yaml' -r -f -a "text\t''
json\t''
yaml\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand status" -l follow -d 'Print the progress of the run until it ends' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand status" -l pause -d 'Pause the run: all transfers wait until it is resumed' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand status" -l resume -d 'Resume a paused run' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand status" -l stop -d 'Stop the run as Ctrl-C does; the next run continues' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand status" -l log-level -d 'How much to say: error, info, debug or trace' -r -f -a "error\t''
info\t''
debug\t''
trace\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand status" -l v2 -d 'Accepted, and not needed: this is version 2' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand status" -l cache-dir -d 'Cache of oc-mirror v2 to take content from instead of downloading it; it is only read [default: $OC_MIRROR_CACHE, else the home directory, if there is a cache]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand status" -s p -l port -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand status" -s h -l help -d 'Print help'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand verify" -s o -l output -d 'How the result is written to standard output: text or json' -r -f -a "text\t''
json\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand verify" -l authfile -d 'Credentials, in the format of podman and docker [default: $REGISTRY_AUTH_FILE, else theirs]' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand verify" -l dest-tls-verify -d 'Check certificates; false also allows plain HTTP' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand verify" -l dest-authfile -d 'Credentials file, instead of --authfile' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand verify" -l dest-creds -d 'User name and password' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand verify" -l dest-username -d 'User name' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand verify" -l dest-password -d 'Password' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand verify" -l dest-registry-token -d 'Bearer token' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand verify" -l dest-cert-dir -d 'Directory with CA (*.crt) and client certificates (*.cert, *.key)' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand verify" -l dest-no-creds -d 'Use no credentials at all' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand verify" -l dest-precompute-digests -d 'Always so: a layer that the destination has is not uploaded again' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand verify" -l dest-oci-accept-uncompressed-layers -d 'Always so: layers are kept as they are' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand verify" -l retry-times -d 'How often a failed request is tried again' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand verify" -l retry-delay -d 'Pause before trying again, such as 500ms or 10s (0: 1 s, then twice as long each time)' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand verify" -l stall-timeout -d 'How long a connection may be silent before it is dropped; there is no limit on the whole of a transfer' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand verify" -l log-level -d 'How much to say: error, info, debug or trace' -r -f -a "error\t''
info\t''
debug\t''
trace\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand verify" -l v2 -d 'Accepted, and not needed: this is version 2' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand verify" -l cache-dir -d 'Cache of oc-mirror v2 to take content from instead of downloading it; it is only read [default: $OC_MIRROR_CACHE, else the home directory, if there is a cache]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand verify" -s p -l port -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand verify" -s h -l help -d 'Print help'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand repair" -s c -l config -d 'The image set configuration to replay when content must be collected again [default: those of the recorded runs]' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand repair" -l authfile -d 'Credentials, in the format of podman and docker [default: $REGISTRY_AUTH_FILE, else theirs]' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand repair" -l src-tls-verify -d 'Check certificates; false also allows plain HTTP' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand repair" -l src-authfile -d 'Credentials file, instead of --authfile' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand repair" -l src-creds -d 'User name and password' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand repair" -l src-username -d 'User name' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand repair" -l src-password -d 'Password' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand repair" -l src-registry-token -d 'Bearer token' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand repair" -l src-cert-dir -d 'Directory with CA (*.crt) and client certificates (*.cert, *.key)' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand repair" -l src-no-creds -d 'Use no credentials at all' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand repair" -l retry-times -d 'How often a failed request is tried again' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand repair" -l retry-delay -d 'Pause before trying again, such as 500ms or 10s (0: 1 s, then twice as long each time)' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand repair" -l stall-timeout -d 'How long a connection may be silent before it is dropped; there is no limit on the whole of a transfer' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand repair" -l log-level -d 'How much to say: error, info, debug or trace' -r -f -a "error\t''
info\t''
debug\t''
trace\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand repair" -l v2 -d 'Accepted, and not needed: this is version 2' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand repair" -l cache-dir -d 'Cache of oc-mirror v2 to take content from instead of downloading it; it is only read [default: $OC_MIRROR_CACHE, else the home directory, if there is a cache]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand repair" -s p -l port -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand repair" -s h -l help -d 'Print help'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand gc" -l dry-run -d 'Print what would be freed; change nothing' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand gc" -s o -l output -d 'How the result is written to standard output: text or json' -r -f -a "text\t''
json\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand gc" -l log-level -d 'How much to say: error, info, debug or trace' -r -f -a "error\t''
info\t''
debug\t''
trace\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand gc" -l v2 -d 'Accepted, and not needed: this is version 2' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand gc" -l cache-dir -d 'Cache of oc-mirror v2 to take content from instead of downloading it; it is only read [default: $OC_MIRROR_CACHE, else the home directory, if there is a cache]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand gc" -s p -l port -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand gc" -s h -l help -d 'Print help'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and not __fish_seen_subcommand_from releases images charts operators help" -l log-level -d 'How much to say: error, info, debug or trace' -r -f -a "error\t''
info\t''
debug\t''
trace\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and not __fish_seen_subcommand_from releases images charts operators help" -l v2 -d 'Accepted, and not needed: this is version 2' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and not __fish_seen_subcommand_from releases images charts operators help" -l cache-dir -d 'Cache of oc-mirror v2 to take content from instead of downloading it; it is only read [default: $OC_MIRROR_CACHE, else the home directory, if there is a cache]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and not __fish_seen_subcommand_from releases images charts operators help" -s p -l port -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and not __fish_seen_subcommand_from releases images charts operators help" -s h -l help -d 'Print help'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and not __fish_seen_subcommand_from releases images charts operators help" -f -a "releases" -d 'List releases of OpenShift: minor versions, channels, or the versions of a channel'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and not __fish_seen_subcommand_from releases images charts operators help" -f -a "images" -d 'List every image of a release, which is verified first, or of a Helm chart'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and not __fish_seen_subcommand_from releases images charts operators help" -f -a "charts" -d 'List the charts of a Helm repository, or the versions of a chart'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and not __fish_seen_subcommand_from releases images charts operators help" -f -a "operators" -d 'List catalogs of operators, or what is in one: packages, channels, versions'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and not __fish_seen_subcommand_from releases images charts operators help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from releases" -l version -d 'Minor version, such as 4.16: lists its stable channel' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from releases" -l channel -d 'Channel to list, such as fast-4.16' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from releases" -l channels -d 'List the channels that releases of --version are in' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from releases" -l filter-by-archs -d 'Architectures, separated by commas: amd64, arm64, ppc64le, s390x, multi' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from releases" -s o -l output -d 'text, json or yaml' -r -f -a "text\t''
json\t''
yaml\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from releases" -l from -d 'Read what was carried over, with archives or a whole workspace, and ask nobody' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from releases" -l authfile -d 'Credentials, in the format of podman and docker [default: $REGISTRY_AUTH_FILE, else theirs]' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from releases" -l src-tls-verify -d 'Check certificates; false also allows plain HTTP' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from releases" -l src-authfile -d 'Credentials file, instead of --authfile' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from releases" -l src-creds -d 'User name and password' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from releases" -l src-username -d 'User name' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from releases" -l src-password -d 'Password' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from releases" -l src-registry-token -d 'Bearer token' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from releases" -l src-cert-dir -d 'Directory with CA (*.crt) and client certificates (*.cert, *.key)' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from releases" -l src-no-creds -d 'Use no credentials at all' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from releases" -l retry-times -d 'How often a failed request is tried again' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from releases" -l retry-delay -d 'Pause before trying again, such as 500ms or 10s (0: 1 s, then twice as long each time)' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from releases" -l stall-timeout -d 'How long a connection may be silent before it is dropped; there is no limit on the whole of a transfer' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from releases" -l log-level -d 'How much to say: error, info, debug or trace' -r -f -a "error\t''
info\t''
debug\t''
trace\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from releases" -l v2 -d 'Accepted, and not needed: this is version 2' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from releases" -l cache-dir -d 'Cache of oc-mirror v2 to take content from instead of downloading it; it is only read [default: $OC_MIRROR_CACHE, else the home directory, if there is a cache]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from releases" -s p -l port -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from releases" -s h -l help -d 'Print help'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -l release -d 'A version such as 4.16.3, or a payload such as quay.io/openshift-release-dev/ocp-release:4.16.3-x86_64' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -l arch -d 'Architecture of the release, where a version is given' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -l chart -d 'A chart: a folder, a .tgz file, the URL of one, oci://REGISTRY/CHART[:VERSION], or a name with --repository' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -l repository -d 'The repository that has the chart' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -l version -d 'Version or range of the chart [default: the newest]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -l values -d 'Values to render the chart with; each file wins over those before it' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -l image-path -d 'A Kubernetes JSONPath that leads to images, beside pod specs' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -l helm-binary -d 'Also render the chart with this Helm program, and report images that only one of both finds' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -s o -l output -d 'text, json or yaml' -r -f -a "text\t''
json\t''
yaml\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -l from -d 'Read what was carried over, with archives or a whole workspace, and ask nobody' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -l authfile -d 'Credentials, in the format of podman and docker [default: $REGISTRY_AUTH_FILE, else theirs]' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -l src-tls-verify -d 'Check certificates; false also allows plain HTTP' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -l src-authfile -d 'Credentials file, instead of --authfile' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -l src-creds -d 'User name and password' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -l src-username -d 'User name' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -l src-password -d 'Password' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -l src-registry-token -d 'Bearer token' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -l src-cert-dir -d 'Directory with CA (*.crt) and client certificates (*.cert, *.key)' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -l src-no-creds -d 'Use no credentials at all' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -l retry-times -d 'How often a failed request is tried again' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -l retry-delay -d 'Pause before trying again, such as 500ms or 10s (0: 1 s, then twice as long each time)' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -l stall-timeout -d 'How long a connection may be silent before it is dropped; there is no limit on the whole of a transfer' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -l log-level -d 'How much to say: error, info, debug or trace' -r -f -a "error\t''
info\t''
debug\t''
trace\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -l v2 -d 'Accepted, and not needed: this is version 2' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -l cache-dir -d 'Cache of oc-mirror v2 to take content from instead of downloading it; it is only read [default: $OC_MIRROR_CACHE, else the home directory, if there is a cache]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -s p -l port -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from images" -s h -l help -d 'Print help'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from charts" -l repository -d 'The repository: https://…, http://… or oci://…' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from charts" -l chart -d 'List the versions of this chart. A registry (oci://) needs it' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from charts" -s o -l output -d 'text, json or yaml' -r -f -a "text\t''
json\t''
yaml\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from charts" -l from -d 'Read what was carried over, with archives or a whole workspace, and ask nobody' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from charts" -l authfile -d 'Credentials, in the format of podman and docker [default: $REGISTRY_AUTH_FILE, else theirs]' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from charts" -l src-tls-verify -d 'Check certificates; false also allows plain HTTP' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from charts" -l src-authfile -d 'Credentials file, instead of --authfile' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from charts" -l src-creds -d 'User name and password' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from charts" -l src-username -d 'User name' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from charts" -l src-password -d 'Password' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from charts" -l src-registry-token -d 'Bearer token' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from charts" -l src-cert-dir -d 'Directory with CA (*.crt) and client certificates (*.cert, *.key)' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from charts" -l src-no-creds -d 'Use no credentials at all' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from charts" -l retry-times -d 'How often a failed request is tried again' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from charts" -l retry-delay -d 'Pause before trying again, such as 500ms or 10s (0: 1 s, then twice as long each time)' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from charts" -l stall-timeout -d 'How long a connection may be silent before it is dropped; there is no limit on the whole of a transfer' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from charts" -l log-level -d 'How much to say: error, info, debug or trace' -r -f -a "error\t''
info\t''
debug\t''
trace\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from charts" -l v2 -d 'Accepted, and not needed: this is version 2' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from charts" -l cache-dir -d 'Cache of oc-mirror v2 to take content from instead of downloading it; it is only read [default: $OC_MIRROR_CACHE, else the home directory, if there is a cache]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from charts" -s p -l port -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from charts" -s h -l help -d 'Print help'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from operators" -l catalogs -d 'List Red Hat\'s catalogs for --version; with --from, those that were carried over' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from operators" -l version -d 'Minor version of OpenShift, such as 4.16' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from operators" -l catalog -d 'List the packages of this catalog: an image with tag or digest, or an image layout oci://DIR' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from operators" -l package -d 'List the channels of this package' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from operators" -l channel -d 'List the versions in this channel' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from operators" -s o -l output -d 'text, json or yaml' -r -f -a "text\t''
json\t''
yaml\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from operators" -l from -d 'Read what was carried over, with archives or a whole workspace, and ask nobody' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from operators" -l authfile -d 'Credentials, in the format of podman and docker [default: $REGISTRY_AUTH_FILE, else theirs]' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from operators" -l src-tls-verify -d 'Check certificates; false also allows plain HTTP' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from operators" -l src-authfile -d 'Credentials file, instead of --authfile' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from operators" -l src-creds -d 'User name and password' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from operators" -l src-username -d 'User name' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from operators" -l src-password -d 'Password' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from operators" -l src-registry-token -d 'Bearer token' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from operators" -l src-cert-dir -d 'Directory with CA (*.crt) and client certificates (*.cert, *.key)' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from operators" -l src-no-creds -d 'Use no credentials at all' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from operators" -l retry-times -d 'How often a failed request is tried again' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from operators" -l retry-delay -d 'Pause before trying again, such as 500ms or 10s (0: 1 s, then twice as long each time)' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from operators" -l stall-timeout -d 'How long a connection may be silent before it is dropped; there is no limit on the whole of a transfer' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from operators" -l log-level -d 'How much to say: error, info, debug or trace' -r -f -a "error\t''
info\t''
debug\t''
trace\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from operators" -l v2 -d 'Accepted, and not needed: this is version 2' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from operators" -l cache-dir -d 'Cache of oc-mirror v2 to take content from instead of downloading it; it is only read [default: $OC_MIRROR_CACHE, else the home directory, if there is a cache]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from operators" -s p -l port -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from operators" -s h -l help -d 'Print help'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from help" -f -a "releases" -d 'List releases of OpenShift: minor versions, channels, or the versions of a channel'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from help" -f -a "images" -d 'List every image of a release, which is verified first, or of a Helm chart'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from help" -f -a "charts" -d 'List the charts of a Helm repository, or the versions of a chart'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from help" -f -a "operators" -d 'List catalogs of operators, or what is in one: packages, channels, versions'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand list; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and not __fish_seen_subcommand_from release operator help" -l log-level -d 'How much to say: error, info, debug or trace' -r -f -a "error\t''
info\t''
debug\t''
trace\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and not __fish_seen_subcommand_from release operator help" -l v2 -d 'Accepted, and not needed: this is version 2' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and not __fish_seen_subcommand_from release operator help" -l cache-dir -d 'Cache of oc-mirror v2 to take content from instead of downloading it; it is only read [default: $OC_MIRROR_CACHE, else the home directory, if there is a cache]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and not __fish_seen_subcommand_from release operator help" -s p -l port -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and not __fish_seen_subcommand_from release operator help" -s h -l help -d 'Print help'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and not __fish_seen_subcommand_from release operator help" -f -a "release" -d 'Show how a cluster gets from one release to another: hops, channels, known risks'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and not __fish_seen_subcommand_from release operator help" -f -a "operator" -d 'Show how OLM gets an operator from one version to another inside a channel'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and not __fish_seen_subcommand_from release operator help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from release" -l from -d 'The release that the cluster has; without it, every release that leads to --to' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from release" -l to -d 'The release that the cluster is to have; without it, everything that can be reached' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from release" -l channel -d 'Channel to look in, such as eus-4.16; those of the same kind before it are looked in too [default: the stable channels]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from release" -l arch -d 'Architecture of the releases' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from release" -s o -l output -d 'table, json, yaml, dot (Graphviz), mermaid or svg' -r -f -a "table\t''
json\t''
yaml\t''
dot\t''
mermaid\t''
svg\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from release" -l workspace -d 'Read what was carried over, with archives or a whole workspace, and ask nobody' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from release" -l authfile -d 'Credentials, in the format of podman and docker [default: $REGISTRY_AUTH_FILE, else theirs]' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from release" -l src-tls-verify -d 'Check certificates; false also allows plain HTTP' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from release" -l src-authfile -d 'Credentials file, instead of --authfile' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from release" -l src-creds -d 'User name and password' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from release" -l src-username -d 'User name' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from release" -l src-password -d 'Password' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from release" -l src-registry-token -d 'Bearer token' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from release" -l src-cert-dir -d 'Directory with CA (*.crt) and client certificates (*.cert, *.key)' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from release" -l src-no-creds -d 'Use no credentials at all' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from release" -l retry-times -d 'How often a failed request is tried again' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from release" -l retry-delay -d 'Pause before trying again, such as 500ms or 10s (0: 1 s, then twice as long each time)' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from release" -l stall-timeout -d 'How long a connection may be silent before it is dropped; there is no limit on the whole of a transfer' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from release" -l log-level -d 'How much to say: error, info, debug or trace' -r -f -a "error\t''
info\t''
debug\t''
trace\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from release" -l v2 -d 'Accepted, and not needed: this is version 2' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from release" -l cache-dir -d 'Cache of oc-mirror v2 to take content from instead of downloading it; it is only read [default: $OC_MIRROR_CACHE, else the home directory, if there is a cache]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from release" -s p -l port -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from release" -s h -l help -d 'Print help'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from operator" -l catalog -d 'The catalog: an image with tag or digest, or an image layout oci://DIR' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from operator" -l package -d 'The package, which is the operator' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from operator" -l channel -d 'The channel [default: the package\'s default channel]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from operator" -l from -d 'The version that the cluster has; without it, every version that leads to --to' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from operator" -l to -d 'The version that the cluster is to have; without it, everything that can be reached' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from operator" -s o -l output -d 'table, json, yaml, dot (Graphviz), mermaid or svg' -r -f -a "table\t''
json\t''
yaml\t''
dot\t''
mermaid\t''
svg\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from operator" -l workspace -d 'Read what was carried over, with archives or a whole workspace, and ask nobody' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from operator" -l authfile -d 'Credentials, in the format of podman and docker [default: $REGISTRY_AUTH_FILE, else theirs]' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from operator" -l src-tls-verify -d 'Check certificates; false also allows plain HTTP' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from operator" -l src-authfile -d 'Credentials file, instead of --authfile' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from operator" -l src-creds -d 'User name and password' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from operator" -l src-username -d 'User name' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from operator" -l src-password -d 'Password' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from operator" -l src-registry-token -d 'Bearer token' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from operator" -l src-cert-dir -d 'Directory with CA (*.crt) and client certificates (*.cert, *.key)' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from operator" -l src-no-creds -d 'Use no credentials at all' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from operator" -l retry-times -d 'How often a failed request is tried again' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from operator" -l retry-delay -d 'Pause before trying again, such as 500ms or 10s (0: 1 s, then twice as long each time)' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from operator" -l stall-timeout -d 'How long a connection may be silent before it is dropped; there is no limit on the whole of a transfer' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from operator" -l log-level -d 'How much to say: error, info, debug or trace' -r -f -a "error\t''
info\t''
debug\t''
trace\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from operator" -l v2 -d 'Accepted, and not needed: this is version 2' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from operator" -l cache-dir -d 'Cache of oc-mirror v2 to take content from instead of downloading it; it is only read [default: $OC_MIRROR_CACHE, else the home directory, if there is a cache]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from operator" -s p -l port -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from operator" -s h -l help -d 'Print help'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from help" -f -a "release" -d 'Show how a cluster gets from one release to another: hops, channels, known risks'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from help" -f -a "operator" -d 'Show how OLM gets an operator from one version to another inside a channel'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand upgrade-path; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -l for -d 'The inventory of a cluster, made by `oc-mirror inventory`: the configuration is for what it needs next' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -l to -d 'The release that the cluster is to have [default: the newest that its channel leads to without known risks]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -l channel -d 'The channel that the cluster is in, instead of the one that its inventory names' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -l arch -d 'The architecture of the cluster, instead of the one that its inventory names' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -l check-operators -d 'Look into the catalogs: whether they have the packages and channels, and updates from what is installed' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -l version -d 'The minor version to start with, such as 4.18 [default: the newest]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -l out -d 'Write the configuration to this file instead of standard output' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -l force -d 'Replace the file when it is there already' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -l from -d 'Read the update graphs from what was carried, with archives or a whole workspace, and ask nobody' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -l authfile -d 'Credentials, in the format of podman and docker [default: $REGISTRY_AUTH_FILE, else theirs]' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -l src-tls-verify -d 'Check certificates; false also allows plain HTTP' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -l src-authfile -d 'Credentials file, instead of --authfile' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -l src-creds -d 'User name and password' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -l src-username -d 'User name' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -l src-password -d 'Password' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -l src-registry-token -d 'Bearer token' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -l src-cert-dir -d 'Directory with CA (*.crt) and client certificates (*.cert, *.key)' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -l src-no-creds -d 'Use no credentials at all' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -l retry-times -d 'How often a failed request is tried again' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -l retry-delay -d 'Pause before trying again, such as 500ms or 10s (0: 1 s, then twice as long each time)' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -l stall-timeout -d 'How long a connection may be silent before it is dropped; there is no limit on the whole of a transfer' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -l log-level -d 'How much to say: error, info, debug or trace' -r -f -a "error\t''
info\t''
debug\t''
trace\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -l v2 -d 'Accepted, and not needed: this is version 2' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -l cache-dir -d 'Cache of oc-mirror v2 to take content from instead of downloading it; it is only read [default: $OC_MIRROR_CACHE, else the home directory, if there is a cache]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -s p -l port -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand init" -s h -l help -d 'Print help'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand inventory" -l kubeconfig -d 'The kubeconfig [default: $KUBECONFIG, else ~/.kube/config]' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand inventory" -l context -d 'The context in the kubeconfig, instead of its current one' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand inventory" -l out -d 'Write the document to this file instead of standard output' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand inventory" -l log-level -d 'How much to say: error, info, debug or trace' -r -f -a "error\t''
info\t''
debug\t''
trace\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand inventory" -l v2 -d 'Accepted, and not needed: this is version 2' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand inventory" -l cache-dir -d 'Cache of oc-mirror v2 to take content from instead of downloading it; it is only read [default: $OC_MIRROR_CACHE, else the home directory, if there is a cache]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand inventory" -s p -l port -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand inventory" -s h -l help -d 'Print help'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand version" -s o -l output -d 'json or yaml, instead of a line of text' -r -f -a "json\t''
yaml\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand version" -l short -d 'Only the number' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand version" -l log-level -d 'How much to say: error, info, debug or trace' -r -f -a "error\t''
info\t''
debug\t''
trace\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand version" -l v2 -d 'Accepted, and not needed: this is version 2' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand version" -l cache-dir -d 'Cache of oc-mirror v2 to take content from instead of downloading it; it is only read [default: $OC_MIRROR_CACHE, else the home directory, if there is a cache]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand version" -s p -l port -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand version" -s h -l help -d 'Print help'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand completion" -l log-level -d 'How much to say: error, info, debug or trace' -r -f -a "error\t''
info\t''
debug\t''
trace\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand completion" -l v2 -d 'Accepted, and not needed: this is version 2' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand completion" -l cache-dir -d 'Cache of oc-mirror v2 to take content from instead of downloading it; it is only read [default: $OC_MIRROR_CACHE, else the home directory, if there is a cache]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand completion" -s p -l port -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand completion" -s h -l help -d 'Print help'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand generate-docs" -l out -d 'Directory to write man/ and reference/ into' -r -F
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand generate-docs" -l log-level -d 'How much to say: error, info, debug or trace' -r -f -a "error\t''
info\t''
debug\t''
trace\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand generate-docs" -l v2 -d 'Accepted, and not needed: this is version 2' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand generate-docs" -l cache-dir -d 'Cache of oc-mirror v2 to take content from instead of downloading it; it is only read [default: $OC_MIRROR_CACHE, else the home directory, if there is a cache]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand generate-docs" -s p -l port -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand generate-docs" -s h -l help -d 'Print help'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand describe" -l log-level -d 'How much to say: error, info, debug or trace' -r -f -a "error\t''
info\t''
debug\t''
trace\t''"
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand describe" -l v2 -d 'Accepted, and not needed: this is version 2' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand describe" -l cache-dir -d 'Cache of oc-mirror v2 to take content from instead of downloading it; it is only read [default: $OC_MIRROR_CACHE, else the home directory, if there is a cache]' -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand describe" -s p -l port -r
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand help; and not __fish_seen_subcommand_from migrate delete prune serve status verify repair gc list upgrade-path init inventory version completion generate-docs describe help" -f -a "migrate" -d 'Convert a workspace, cache and history of oc-mirror v2; the old files are only read'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand help; and not __fish_seen_subcommand_from migrate delete prune serve status verify repair gc list upgrade-path init inventory version completion generate-docs describe help" -f -a "delete" -d 'Delete images from a registry: first a plan, then its execution'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand help; and not __fish_seen_subcommand_from migrate delete prune serve status verify repair gc list upgrade-path init inventory version completion generate-docs describe help" -f -a "prune" -d 'Delete what is no longer needed from a registry, after a confirmation'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand help; and not __fish_seen_subcommand_from migrate delete prune serve status verify repair gc list upgrade-path init inventory version completion generate-docs describe help" -f -a "serve" -d 'Serve a workspace as a read-only registry, under the names a target would have'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand help; and not __fish_seen_subcommand_from migrate delete prune serve status verify repair gc list upgrade-path init inventory version completion generate-docs describe help" -f -a "status" -d 'Show the runs of a workspace, live progress, and what is missing; pause, resume or stop a run'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand help; and not __fish_seen_subcommand_from migrate delete prune serve status verify repair gc list upgrade-path init inventory version completion generate-docs describe help" -f -a "verify" -d 'Check a workspace, archives or a registry: every byte against its digest, every reference'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand help; and not __fish_seen_subcommand_from migrate delete prune serve status verify repair gc list upgrade-path init inventory version completion generate-docs describe help" -f -a "repair" -d 'Check a workspace, and fetch only what is damaged or missing'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand help; and not __fish_seen_subcommand_from migrate delete prune serve status verify repair gc list upgrade-path init inventory version completion generate-docs describe help" -f -a "gc" -d 'Free content of a workspace that nothing needs any more'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand help; and not __fish_seen_subcommand_from migrate delete prune serve status verify repair gc list upgrade-path init inventory version completion generate-docs describe help" -f -a "list" -d 'List what there is to mirror'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand help; and not __fish_seen_subcommand_from migrate delete prune serve status verify repair gc list upgrade-path init inventory version completion generate-docs describe help" -f -a "upgrade-path" -d 'Show how a cluster gets from one version to another'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand help; and not __fish_seen_subcommand_from migrate delete prune serve status verify repair gc list upgrade-path init inventory version completion generate-docs describe help" -f -a "init" -d 'Make a configuration to start from, or one for what a cluster needs next'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand help; and not __fish_seen_subcommand_from migrate delete prune serve status verify repair gc list upgrade-path init inventory version completion generate-docs describe help" -f -a "inventory" -d 'Write down what a cluster has: release, channel, operators, catalogs, mirrors'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand help; and not __fish_seen_subcommand_from migrate delete prune serve status verify repair gc list upgrade-path init inventory version completion generate-docs describe help" -f -a "version" -d 'Print the version'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand help; and not __fish_seen_subcommand_from migrate delete prune serve status verify repair gc list upgrade-path init inventory version completion generate-docs describe help" -f -a "completion" -d 'Print a completion script for a shell'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand help; and not __fish_seen_subcommand_from migrate delete prune serve status verify repair gc list upgrade-path init inventory version completion generate-docs describe help" -f -a "generate-docs" -d 'Write man pages and the reference of flags'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand help; and not __fish_seen_subcommand_from migrate delete prune serve status verify repair gc list upgrade-path init inventory version completion generate-docs describe help" -f -a "describe" -d 'Arguments of a command that is not part of this version: none is looked at'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand help; and not __fish_seen_subcommand_from migrate delete prune serve status verify repair gc list upgrade-path init inventory version completion generate-docs describe help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand help; and __fish_seen_subcommand_from list" -f -a "releases" -d 'List releases of OpenShift: minor versions, channels, or the versions of a channel'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand help; and __fish_seen_subcommand_from list" -f -a "images" -d 'List every image of a release, which is verified first, or of a Helm chart'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand help; and __fish_seen_subcommand_from list" -f -a "charts" -d 'List the charts of a Helm repository, or the versions of a chart'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand help; and __fish_seen_subcommand_from list" -f -a "operators" -d 'List catalogs of operators, or what is in one: packages, channels, versions'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand help; and __fish_seen_subcommand_from upgrade-path" -f -a "release" -d 'Show how a cluster gets from one release to another: hops, channels, known risks'
complete -c oc-mirror -n "__fish_oc_mirror_using_subcommand help; and __fish_seen_subcommand_from upgrade-path" -f -a "operator" -d 'Show how OLM gets an operator from one version to another inside a channel'
